package pdu

import "strconv"

// Units are the dimension and scale of a metric's values (pmUnits, pmapi.h),
// as they are on the wire. From the most significant bit down:
//
//	dimSpace 4, dimTime 4, dimCount 4, scaleSpace 4, scaleTime 4,
//	scaleCount 4, extraUnit 5, extraScale 3
//
// The dimensions and scaleCount are signed. Before PCP 7.2.0 the last 8 bits
// were padding, so pmcd relays the descriptors of agents unchanged.
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

// NewUnits packs its arguments as pmUnits has them; scaleCount is a power of
// ten. Each is cut to 4 bits.
func NewUnits(dimSpace, dimTime, dimCount, scaleSpace, scaleTime, scaleCount int) Units {
	var u Units
	for _, v := range [...]int{dimSpace, dimTime, dimCount, scaleSpace, scaleTime, scaleCount} {
		u = u<<4 | Units(v&0xf)
	}
	return u << 8
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

// ExtraUnit returns another unit: 1 temperature, 2 voltage, 3 current, 4 power (PCP
// 7.2.0). 0 is none.
func (u Units) ExtraUnit() int { return int(u>>3) & 0x1f }

// ExtraScale reports the scale of ExtraUnit.
func (u Units) ExtraScale() int { return int(u) & 7 }

// String returns u as PCP tools print it, such as "Kbyte / sec" or, without
// dimension and scale, "none" (pmUnitsStr(3)). The extra unit is left out.
func (u Units) String() string {
	dims := [...]struct {
		dim  int
		name string
	}{
		{u.DimSpace(), spaceName(u.ScaleSpace())},
		{u.DimTime(), timeName(u.ScaleTime())},
		{u.DimCount(), "count"},
	}
	if n := u.ScaleCount(); n != 0 {
		dims[2].name = "count x 10^" + strconv.Itoa(n)
		if u.DimSpace() == 0 && u.DimTime() == 0 && u.DimCount() == 0 {
			return "x 10^" + strconv.Itoa(n)
		}
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
	if s == "" {
		return "none"
	}
	return s[1:]
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
