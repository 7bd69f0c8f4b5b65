// Package scale writes values of metrics in the units that people read best: bytes in KiB and
// MiB, times in ms or hours, large counts in k and M.
package scale

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Text returns a value in units u, or as PCP prints it if it is no number. busy says that a
// number without units is a part of the time, as the rate of a counter of time is.
func Text(v pmapi.Value, u pdu.Units, busy bool) string {
	f, err := v.Float64()
	switch {
	case err != nil:
		return v.String()
	case math.IsNaN(f) || math.IsInf(f, 0):
		return v.String()
	case busy && u == 0:
		return digits(100*f) + "%"
	case u == 0 && v.Type() != pdu.MetricFloat && v.Type() != pdu.MetricDouble:
		return v.String() // often a number that is no quantity
	}
	return Number(f, u)
}

// Busy reports whether the rate of a counter in units u is a part of the time.
func Busy(u pdu.Units) bool {
	return u.DimTime() == 1 && u.DimSpace() == 0 && u.DimCount() == 0 && u.ExtraUnit() == 0
}

// Number returns a number in units u.
func Number(f float64, u pdu.Units) string {
	per := ""
	one := u // without the time that it is divided by
	if u.DimTime() == -1 {
		per = "/s"
		one = pdu.NewUnits(u.DimSpace(), 0, u.DimCount(), u.ScaleSpace(), 0, u.ScaleCount()).WithExtra(u.ExtraUnit(), u.ExtraScale())
		second := pdu.NewUnits(0, -1, 0, 0, pdu.TimeSec, 0)
		if x, err := pmapi.Convert(f, pdu.NewUnits(0, -1, 0, 0, u.ScaleTime(), 0), second); err == nil {
			f = x
		}
	}
	type dimensions struct{ space, time, count, extra int }
	switch (dimensions{one.DimSpace(), one.DimTime(), one.DimCount(), one.ExtraUnit()}) {
	case dimensions{1, 0, 0, 0}:
		if x, err := pmapi.Convert(f, one, pdu.Byte); err == nil {
			return bytes(x) + per
		}
	case dimensions{0, 1, 0, 0}:
		if x, err := pmapi.Convert(f, one, pdu.Sec); err == nil {
			return seconds(x)
		}
	case dimensions{0, 0, 1, 0}, dimensions{}:
		return count(f*math.Pow10(one.ScaleCount())) + per
	case dimensions{0, 0, 0, one.ExtraUnit()}:
		if name := extraNames[one]; name != "" {
			return digits(f) + " " + name + per
		}
	}
	return digits(f) + " " + u.String()
}

// extraNames are units of temperature, voltage, current and power.
var extraNames = map[pdu.Units]string{
	pdu.Celsius: "°C", pdu.Fahrenheit: "°F", pdu.Kelvin: "K",
	pdu.Volt: "V", pdu.Millivolt: "mV", pdu.Microvolt: "µV",
	pdu.Ampere: "A", pdu.Milliampere: "mA", pdu.Microampere: "µA",
	pdu.Kilowatt: "kW", pdu.Watt: "W", pdu.Milliwatt: "mW", pdu.Microwatt: "µW",
}

// digits returns f with three digits or more, but no zeros at the end of a fraction.
func digits(f float64) string {
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0"
	case a < 0.001 || a >= 1e15:
		return strconv.FormatFloat(f, 'g', 3, 64)
	case a < 0.9995:
		return trimmed(f, 3)
	case a < 9.995:
		return trimmed(f, 2)
	case a < 99.95:
		return trimmed(f, 1)
	}
	return trimmed(f, 0)
}

func trimmed(f float64, fraction int) string {
	s := strconv.FormatFloat(f, 'f', fraction, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// scaled divides f by base as often as makes it less than base, and writes it with the prefix
// for that.
func scaled(f, base float64, prefixes ...string) string {
	i := 0
	for ; i+1 < len(prefixes) && math.Abs(f) >= base-0.5; i++ {
		f /= base
	}
	return digits(f) + prefixes[i]
}

func bytes(f float64) string {
	return scaled(f, 1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
}

// count keeps numbers below 10,000, which are easy to read.
func count(f float64) string {
	if math.Abs(f) < 9999.5 {
		return digits(f)
	}
	return scaled(f, 1000, "", "k", "M", "G", "T", "P", "E")
}

// seconds writes a time.
func seconds(f float64) string {
	a := math.Abs(f)
	switch {
	case a == 0:
		return "0 s"
	case a < 0.9995e-6:
		return digits(f*1e9) + " ns"
	case a < 0.9995e-3:
		return digits(f*1e6) + " µs"
	case a < 0.9995:
		return digits(f*1e3) + " ms"
	case a < 60:
		return digits(f) + " s"
	case a >= 1e15:
		return digits(f/(24*3600)) + " d"
	}
	sign := ""
	if f < 0 {
		sign = "-"
	}
	s := int64(a)
	days, hours, minutes := s/(24*3600), s/3600%24, s/60%60
	switch {
	case days > 0:
		return fmt.Sprintf("%s%dd %dh", sign, days, hours)
	case hours > 0:
		return fmt.Sprintf("%s%dh %dm", sign, hours, minutes)
	}
	return fmt.Sprintf("%s%dm %ds", sign, minutes, s%60)
}
