package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The first line of a kind is logged at once, and once a minute how many came
// after it; nothing is lost at the end.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		d := &Daemon{log: zap.New(core)}
		said := func(want ...string) {
			t.Helper()
			var got []string
			for _, e := range logs.TakeAll() {
				got = append(got, e.Level.String()+" "+e.Message)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("at %v: got %q, want %q", time.Now(), got, want)
			}
		}
		minute := func() {
			time.Sleep(rateTime)
			d.rate.flush(d, false)
		}
		for i := range 5 {
			d.rate.printf(d, "a", "a %d", i)
		}
		d.rate.log(d, zapcore.ErrorLevel, "b", "b")
		said("error b", "warn a 0")
		d.rate.flush(d, false)
		said()
		minute()
		said("warn a 0 (4 more like it in 1m0s)")
		d.rate.printf(d, "a", "a again") // still in a minute that has begun
		d.rate.printf(d, "b", "b again")
		said("warn b again")
		minute()
		said("warn a 0 (1 more like it in 1m0s)")
		minute() // nothing of a in this one
		said()
		d.rate.printf(d, "a", "a anew")
		d.rate.printf(d, "a", "a anew")
		said("warn a anew")
		time.Sleep(rateTime + time.Second)
		d.rate.printf(d, "a", "a later") // before the flush
		said("warn a later (1 more like it in 1m1s)")
		d.rate.printf(d, "a", "a later")
		d.rate.flush(d, true)
		said("warn a later (1 more like it in 0s)")
	})
}

// What others choose is part of keys: memory does not follow how many there
// are, and neither does the log.
func TestRateIsBounded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	d := &Daemon{log: zap.New(core)}
	for i := range 5 * rateKeys {
		d.rate.printf(d, fmt.Sprint(i), "host %d", i)
	}
	if n := len(d.rate.last); n > rateKeys+1 {
		t.Errorf("%d keys", n)
	}
	if n := logs.Len(); n > rateKeys+1 {
		t.Errorf("%d lines", n)
	}
	d.rate.flush(d, true)
	last := logs.All()[logs.Len()-1].Message
	if !strings.Contains(last, fmt.Sprintf("(%d more like it", 4*rateKeys-1)) {
		t.Errorf("the last line is %q", last)
	}
}
