package pmapi

import (
	"fmt"
	"math"

	"github.com/gopcp/pmcd/pdu"
)

// Convert returns a number in units of from as one in units of to (pmConvScale(3)), such as
// 2048 in [pdu.Byte] as 2 in [pdu.Kbyte]. It fails with pdu.ErrnoConv if the dimensions of the
// units differ, and with pdu.ErrnoUnit if one of them has a scale that does not exist. Units
// of temperature, voltage and so on can only be converted to the same.
func Convert(x float64, from, to pdu.Units) (float64, error) {
	f, err := factor(from, to)
	if err != nil {
		return 0, fmt.Errorf("%v in %v: %w", from, to, err)
	}
	return x * f, nil
}

// timeScales are the seconds in units of time.
var timeScales = [...]float64{
	pdu.TimeNsec: 1e-9, pdu.TimeUsec: 1e-6, pdu.TimeMsec: 1e-3, pdu.TimeSec: 1, pdu.TimeMin: 60, pdu.TimeHour: 3600,
}

func factor(from, to pdu.Units) (float64, error) {
	switch {
	case from == to:
		return 1, nil
	case from.DimSpace() != to.DimSpace() || from.DimTime() != to.DimTime() || from.DimCount() != to.DimCount(),
		from.ExtraUnit() != to.ExtraUnit(), from.ExtraUnit() != 0 && from.ExtraScale() != to.ExtraScale():
		return 0, pdu.ErrnoConv
	}
	f := 1.0
	if d := from.DimSpace(); d != 0 {
		if max(from.ScaleSpace(), to.ScaleSpace()) > pdu.SpaceYbyte {
			return 0, pdu.ErrnoUnit
		}
		f *= math.Pow(1024, float64(d*(from.ScaleSpace()-to.ScaleSpace())))
	}
	if d := from.DimTime(); d != 0 {
		if max(from.ScaleTime(), to.ScaleTime()) > pdu.TimeHour {
			return 0, pdu.ErrnoUnit
		}
		f *= math.Pow(timeScales[from.ScaleTime()]/timeScales[to.ScaleTime()], float64(d))
	}
	d := from.DimCount()
	if d == 0 && from.DimSpace() == 0 && from.DimTime() == 0 {
		d = 1 // without a dimension, the scale of count is that of the number
	}
	if d != 0 {
		f *= math.Pow(10, float64(d*(from.ScaleCount()-to.ScaleCount())))
	}
	return f, nil
}
