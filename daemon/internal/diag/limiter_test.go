package diag

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/logtest"
)

// The first line of a kind is logged at once, and once a minute how many came after it,
// with the text of the last one. Nothing is lost at the end.
func TestLogLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, logs := logtest.NewLog()
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
			time.Sleep(time.Second)
		}
		l.Log(slog.LevelError, "b", "b")
		logged("ERROR b", "WARN a 0")
		l.Flush(false)
		logged()
		minute()
		logged("WARN 4 lines like this were left out in 1m5s; the last one, 1m1s ago: a 4")
		l.Log(slog.LevelError, "a", "a again") // still in a minute that has begun
		l.Warn("b", "b again")
		logged("WARN b again")
		minute()
		logged("ERROR 1 line like this was left out in 1m0s; it was 1m0s ago: a again")
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
		logged("WARN 1 line like this was left out in 0s; it was 0s ago: a later")
	})
}

// Goroutines that log lines with the same key at the same time share no memory without a
// lock: this is for the race detector.
func TestLogLimiterConcurrently(t *testing.T) {
	log, logs := logtest.NewLog()
	l := NewLogLimiter(log)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() { l.Warn("a", "a {i}", "i", i) })
	}
	all.Wait()
	l.Flush(true)
	if n := logs.Len(); n != 2 {
		t.Errorf("%d lines, want the first one and the number of the others", n)
	}
}

// What others choose is part of keys: memory does not follow how many there
// are, and neither does the log.
func TestLogLimiterIsBounded(t *testing.T) {
	log, logs := logtest.NewLog()
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
	if !strings.Contains(last, fmt.Sprintf("%d lines like this were left out", 4*maxKeys-1)) {
		t.Errorf("the last line is %q", last)
	}
}
