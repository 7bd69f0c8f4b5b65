package testutil

import (
	"testing"
	"time"
)

func TestClockSet(t *testing.T) {
	now := time.Now()
	for _, step := range []time.Duration{0, time.Second, -time.Second, 24 * time.Hour, -24 * time.Hour, 366 * 24 * time.Hour} {
		set := ClockSet(now, step)
		if later := set.Add(time.Minute); later.Sub(now) != time.Minute || later.Unix() != now.Unix()+60+int64(step/time.Second) {
			t.Errorf("%v: a minute after %v it is %v", step, now, later)
		}
	}
}
