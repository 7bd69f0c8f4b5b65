package diag

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/testutil"
)

// The first line of a kind is logged at once, and once a minute how many came
// after it; nothing is lost at the end.
func TestLogLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := testutil.NewLog()
		l := NewLogLimiter(log)
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
			l.Warn("a", "a {i}", "i", i)
		}
		l.Log(slog.LevelError, "b", "b")
		logged("ERROR b", "WARN a 0")
		l.Flush(false)
		logged()
		minute()
		logged("WARN a 0 (4 more like it in 1m0s)")
		l.Warn("a", "a again") // still in a minute that has begun
		l.Warn("b", "b again")
		logged("WARN b again")
		minute()
		logged("WARN a 0 (1 more like it in 1m0s)")
		minute() // nothing of a in this one
		logged()
		l.Warn("a", "a anew")
		l.Warn("a", "a anew")
		logged("WARN a anew")
		time.Sleep(LimitInterval + time.Second)
		l.Warn("a", "a later") // before the flush
		logged("WARN a later (1 more like it in 1m1s)")
		l.Warn("a", "a later")
		l.Flush(true)
		logged("WARN a later (1 more like it in 0s)")
	})
}

// What others choose is part of keys: memory does not follow how many there
// are, and neither does the log.
func TestLogLimiterIsBounded(t *testing.T) {
	log, logs := testutil.NewLog()
	l := NewLogLimiter(log)
	for i := range 5 * maxKeys {
		l.Warn(fmt.Sprint(i), "host {i}", "i", i)
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
