package pmapi

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// ErrReset is the error of a rate if the counter is less than it was: its agent has begun
// anew, or the counter has wrapped around.
var ErrReset = errors.New("counter is less than before")

// Rate returns the change of a counter from one value to a later one, per second.
//
// If the counter is less than before, Rate fails with [ErrReset]. With wraps, a counter of 32
// bits that has lost more than half of its range is taken to have wrapped around once; libpcp
// does so if PCP_COUNTER_WRAP is set, whatever the loss. Counters of 64 bits do not wrap
// around in practice. A counter that has begun anew and is greater than before cannot be
// told from one that has not: see Changes and Reconnected of [Result].
func Rate(before, after Value, elapsed time.Duration, wraps bool) (float64, error) {
	if before.typ != after.typ {
		return 0, fmt.Errorf("values of types %v and %v: %w", before.typ, after.typ, pdu.ErrnoConv)
	}
	if elapsed <= 0 {
		return 0, fmt.Errorf("rate in %v: %w", elapsed, pdu.ErrnoConv)
	}
	var change float64
	switch before.typ {
	case pdu.MetricU32, pdu.MetricU64, pdu.Metric32, pdu.Metric64:
		// In integers, as small changes of large counters are lost in a float64.
		less := after.bits < before.bits
		switch before.typ {
		case pdu.Metric32:
			less = int32(after.bits) < int32(before.bits)
		case pdu.Metric64:
			less = int64(after.bits) < int64(before.bits)
		}
		diff := after.bits - before.bits
		if bitsOf(before.typ) == 32 {
			diff = uint64(uint32(diff))
			if less && wraps && diff < 1<<31 {
				less = false
			}
		}
		if less {
			return 0, fmt.Errorf("%w: %v, %v", ErrReset, before, after)
		}
		change = float64(diff)
	default:
		b, err := before.Float64()
		if err != nil {
			return 0, err
		}
		a, _ := after.Float64()
		if change = a - b; change < 0 || math.IsNaN(change) {
			return 0, fmt.Errorf("%w: %v, %v", ErrReset, before, after)
		}
	}
	return change / elapsed.Seconds(), nil
}

// RateUnits returns the units of a counter's rate, and what [Rate] is to be multiplied by for
// it to have them: such as bytes a second and 1 for a counter of bytes. Time divided by time
// has no units: the rate of a counter of milliseconds is a part of the time if it is
// multiplied by 0.001.
func RateUnits(u pdu.Units) (rate pdu.Units, factor float64) {
	scale := pdu.TimeSec
	factor = 1
	if u.DimTime() != 0 && u.ScaleTime() < len(timeScales) {
		scale = u.ScaleTime()
		factor = timeScales[scale]
	}
	if u.DimTime() == 1 {
		scale = 0
	}
	rate = pdu.NewUnits(u.DimSpace(), u.DimTime()-1, u.DimCount(), u.ScaleSpace(), scale, u.ScaleCount())
	return rate.WithExtra(u.ExtraUnit(), u.ExtraScale()), factor
}
