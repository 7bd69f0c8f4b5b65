package status

import (
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestByNow(t *testing.T) {
	const year = 365 * 24 * time.Hour
	began := time.Now()
	for _, age := range []time.Duration{0, time.Minute, year, -time.Minute} {
		for _, step := range []time.Duration{0, year, -year, 56 * year} {
			now := testutil.ClockSet(began.Add(age), step)
			// JSON has no monotonic reading.
			if got := now.Round(0).Sub(byNow(began, now).Round(0)); got != age {
				t.Errorf("clock set by %v: age %v, want %v", step, got, age)
			}
		}
		// The host was suspended for a night, and NTP has slowed the clock.
		for _, step := range []time.Duration{8 * time.Hour, -(age / 3000).Truncate(time.Second)} {
			if now := testutil.ClockSet(began.Add(age), step); byNow(began, now) != began {
				t.Errorf("after %v: a difference of %v has changed the time", age, step)
			}
		}
	}
	if got := byNow(time.Time{}, began); !got.IsZero() {
		t.Errorf("no time: %v", got)
	}
}

// However the clock was set, a timer is as far ahead as it is. So a restart due in a minute is not
// said to come in a day.
func TestTimerByNow(t *testing.T) {
	began := time.Now()
	next := began.Add(time.Minute)
	const day = 24 * time.Hour
	for _, step := range []time.Duration{0, time.Hour, -day, day, 365 * day} {
		now := testutil.ClockSet(began, step)
		if got := timerByNow(next, now).Round(0).Sub(now.Round(0)); got != time.Minute {
			t.Errorf("clock set by %v: in %v, want a minute", step, got)
		}
	}
	if got := timerByNow(time.Time{}, began); !got.IsZero() {
		t.Errorf("no time: %v", got)
	}
}
