package testutil

import (
	"time"
	"unsafe"
)

// ClockSet returns the time that time.Now would have returned instead of now if the clock
// of this host had been set forward by step before, or back if step is negative. The
// monotonic reading is that of now. Package time has no function for that.
func ClockSet(now time.Time, step time.Duration) time.Time {
	set := now
	// The first field has the nanoseconds in 30 bits and the seconds above them.
	*(*uint64)(unsafe.Pointer(&set)) += uint64(step/time.Second) << 30
	if set.Sub(now) != 0 || !set.Round(0).Equal(now.Round(0).Add(step)) {
		panic("testutil.ClockSet: now has no monotonic reading, step is not in whole seconds, or time.Time has changed")
	}
	return set
}
