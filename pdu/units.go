package pdu

import (
	"cmp"
	"strconv"
)

// Units are the dimension and scale of a metric's values (pmUnits, pmapi.h),
// as they are on the wire. From the most significant bit down:
//
//	dimSpace 4, dimTime 4, dimCount 4, scaleSpace 4, scaleTime 4,
//	scaleCount 4, extraUnit 5, extraScale 3
//
// The dimensions, scaleCount and extraUnit are signed. Before PCP 7.2.0 the last
// 8 bits were padding, so pmcd relays the descriptors of agents unchanged.
type Units uint32

// Scales of space, in powers of 1024 bytes (PM_SPACE_*, pmapi.h).
const (
	SpaceByte = iota
	SpaceKbyte
	SpaceMbyte
	SpaceGbyte
	SpaceTbyte
	SpacePbyte
	SpaceEbyte
	SpaceZbyte
	SpaceYbyte
)

// Scales of time (PM_TIME_*, pmapi.h).
const (
	TimeNsec = iota
	TimeUsec
	TimeMsec
	TimeSec
	TimeMin
	TimeHour
)

// Units of one dimension, which most metrics have: space, time, or a number of
// something.
const (
	Byte  Units = 1<<28 | SpaceByte<<16
	Kbyte Units = 1<<28 | SpaceKbyte<<16
	Mbyte Units = 1<<28 | SpaceMbyte<<16
	Nsec  Units = 1<<24 | TimeNsec<<12
	Usec  Units = 1<<24 | TimeUsec<<12
	Msec  Units = 1<<24 | TimeMsec<<12
	Sec   Units = 1<<24 | TimeSec<<12
	Count Units = 1 << 20
)

// Extra units, for quantities that space, time and count cannot express
// (PM_UNIT_*, pmapi.h of PCP 7.2). Clients of older releases ignore them.
const (
	UnitTemperature = 1 + iota
	UnitVoltage
	UnitCurrent
	UnitPower
)

// Units of one extra unit, each with a scale (PM_TEMPERATURE_*, PM_VOLTAGE_*,
// PM_CURRENT_* and PM_POWER_*).
const (
	Celsius     Units = UnitTemperature<<3 | 1
	Fahrenheit  Units = UnitTemperature<<3 | 2
	Kelvin      Units = UnitTemperature<<3 | 3
	Volt        Units = UnitVoltage<<3 | 1
	Millivolt   Units = UnitVoltage<<3 | 2
	Microvolt   Units = UnitVoltage<<3 | 3
	Ampere      Units = UnitCurrent<<3 | 1
	Milliampere Units = UnitCurrent<<3 | 2
	Microampere Units = UnitCurrent<<3 | 3
	Kilowatt    Units = UnitPower<<3 | 1
	Watt        Units = UnitPower<<3 | 2
	Milliwatt   Units = UnitPower<<3 | 3
	Microwatt   Units = UnitPower<<3 | 4
)

// NewUnits packs its arguments as pmUnits has them; scaleCount is a power of
// ten. Each is cut to 4 bits.
func NewUnits(dimSpace, dimTime, dimCount, scaleSpace, scaleTime, scaleCount int) Units {
	var u Units
	for _, v := range [...]int{dimSpace, dimTime, dimCount, scaleSpace, scaleTime, scaleCount} {
		u = u<<4 | Units(v&0xf)
	}
	return u << 8
}

// WithExtra returns u with an extra unit, such as UnitPower, and its scale. A unit
// below 0 is a divisor: with -UnitVoltage values are per volt. The unit is cut to 5
// bits, the scale to 3.
func (u Units) WithExtra(unit, scale int) Units {
	return u&^0xff | Units(unit&0x1f)<<3 | Units(scale&7)
}

// DimSpace reports the power of space.
func (u Units) DimSpace() int { return int(int32(u) >> 28) }

// DimTime reports the power of time.
func (u Units) DimTime() int { return int(int32(u<<4) >> 28) }

// DimCount reports the power of count.
func (u Units) DimCount() int { return int(int32(u<<8) >> 28) }

// ScaleSpace reports the unit of space, SpaceByte and so on.
func (u Units) ScaleSpace() int { return int(u>>16) & 0xf }

// ScaleTime reports the unit of time, TimeNsec and so on.
func (u Units) ScaleTime() int { return int(u>>12) & 0xf }

// ScaleCount reports the unit of count, as a power of ten.
func (u Units) ScaleCount() int { return int(int32(u<<20) >> 28) }

// ExtraUnit reports the extra unit, UnitTemperature and so on. It is 0 if there is
// none, and negative if values are divided by it.
func (u Units) ExtraUnit() int { return int(int8(u)) >> 3 }

// ExtraScale reports the scale of ExtraUnit.
func (u Units) ExtraScale() int { return int(u) & 7 }

// String returns u as tools of PCP 7.2 print it, such as "Kbyte / sec",
// "temperature (C)" or, without dimension and scale, "none" (pmUnitsStr(3)).
func (u Units) String() string {
	dims := [...]struct {
		dim  int
		name string
	}{
		{cmp.Compare(u.ExtraUnit(), 0), u.extraName()},
		{u.DimSpace(), spaceName(u.ScaleSpace())},
		{u.DimTime(), timeName(u.ScaleTime())},
		{u.DimCount(), countName(u.ScaleCount())},
	}
	var s string
	for _, d := range dims {
		if d.dim > 0 {
			s += " " + power(d.name, d.dim)
		}
	}
	slash := " /"
	for _, d := range dims {
		if d.dim < 0 {
			s += slash + " " + power(d.name, -d.dim)
			slash = ""
		}
	}
	switch {
	case s != "":
		return s[1:]
	case u.ScaleCount() != 0:
		return countName(u.ScaleCount())
	}
	return "none"
}

// extraUnits are the names of the extra units and of their scales. Scale 0 has no
// name.
var extraUnits = [...]struct {
	name   string
	scales []string
}{
	UnitTemperature: {"temperature", []string{"", "C", "F", "K"}},
	UnitVoltage:     {"voltage", []string{"", "V", "mV", "uV"}},
	UnitCurrent:     {"current", []string{"", "A", "mA", "uA"}},
	UnitPower:       {"power", []string{"", "kW", "W", "mW", "uW"}},
}

// extraName returns the name of the extra unit with its scale.
func (u Units) extraName() string {
	unit, scale := u.ExtraUnit(), u.ExtraScale()
	if unit < 0 {
		unit = -unit
	}
	if unit == 0 || unit >= len(extraUnits) {
		return "extra-" + strconv.Itoa(unit)
	}
	e := &extraUnits[unit]
	if scale == 0 || scale >= len(e.scales) {
		return e.name + " (scale-" + strconv.Itoa(scale) + ")"
	}
	return e.name + " (" + e.scales[scale] + ")"
}

func countName(scale int) string {
	switch scale {
	case 0:
		return "count"
	case 1:
		return "count x 10"
	}
	return "count x 10^" + strconv.Itoa(scale)
}

func power(s string, n int) string {
	if n == 1 {
		return s
	}
	return s + "^" + strconv.Itoa(n)
}

func spaceName(scale int) string {
	if scale > SpaceYbyte {
		return "space-" + strconv.Itoa(scale)
	}
	return [...]string{"byte", "Kbyte", "Mbyte", "Gbyte", "Tbyte", "Pbyte", "Ebyte", "Zbyte", "Ybyte"}[scale]
}

func timeName(scale int) string {
	if scale > TimeHour {
		return "time-" + strconv.Itoa(scale)
	}
	return [...]string{"nanosec", "microsec", "millisec", "sec", "min", "hour"}[scale]
}
