package diag

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
func TestLogLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		l := NewLogLimiter(zap.New(core))
		logged := func(want ...string) {
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
			time.Sleep(LimitInterval)
			l.Flush(false)
		}
		for i := range 5 {
			l.Printf("a", "a %d", i)
		}
		l.Log(zapcore.ErrorLevel, "b", "b")
		logged("error b", "warn a 0")
		l.Flush(false)
		logged()
		minute()
		logged("warn a 0 (4 more like it in 1m0s)")
		l.Printf("a", "a again") // still in a minute that has begun
		l.Printf("b", "b again")
		logged("warn b again")
		minute()
		logged("warn a 0 (1 more like it in 1m0s)")
		minute() // nothing of a in this one
		logged()
		l.Printf("a", "a anew")
		l.Printf("a", "a anew")
		logged("warn a anew")
		time.Sleep(LimitInterval + time.Second)
		l.Printf("a", "a later") // before the flush
		logged("warn a later (1 more like it in 1m1s)")
		l.Printf("a", "a later")
		l.Flush(true)
		logged("warn a later (1 more like it in 0s)")
	})
}

// What others choose is part of keys: memory does not follow how many there
// are, and neither does the log.
func TestLogLimiterIsBounded(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	l := NewLogLimiter(zap.New(core))
	for i := range 5 * maxKeys {
		l.Printf(fmt.Sprint(i), "host %d", i)
	}
	if n := len(l.lines); n > maxKeys+1 {
		t.Errorf("%d keys", n)
	}
	if n := logs.Len(); n > maxKeys+1 {
		t.Errorf("%d lines", n)
	}
	l.Flush(true)
	last := logs.All()[logs.Len()-1].Message
	if !strings.Contains(last, fmt.Sprintf("(%d more like it", 4*maxKeys-1)) {
		t.Errorf("the last line is %q", last)
	}
}
