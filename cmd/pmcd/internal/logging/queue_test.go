package logging

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A heldLog is a log that blocks until a value is received from held.
type heldLog struct {
	testutil.Log
	held chan struct{}
}

func (l *heldLog) Write(b []byte) (int, error) {
	<-l.held
	return l.Log.Write(b)
}

// A log that blocks stops the first that logs for a moment, and no other. When it is read
// again, it has all entries in their order, up to a limit.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &heldLog{held: make(chan struct{})}
		q := newQueue(NewCore(out, "text"))
		log := slog.New(NewHandler(q))
		began := time.Now()
		for i := range 10 {
			log.Info(fmt.Sprintf("<%d>", i))
		}
		if waited := time.Since(began); waited != patience {
			t.Errorf("those that log have waited for %v, want %v", waited, patience)
		}
		long := strings.Repeat("x", maxQueued/4)
		for range 10 {
			log.Info(long)
		}
		if q.size > maxQueued {
			t.Errorf("%d bytes are queued", q.size)
		}
		q.flush(time.Second) // and no longer
		if waited := time.Since(began); waited != patience+time.Second {
			t.Errorf("the end has waited for %v", waited-patience)
		}

		close(out.held)
		q.flush(time.Hour)
		text := out.String()
		for i := range 10 {
			before, after, ok := strings.Cut(text, fmt.Sprintf("<%d>", i))
			if text = after; !ok || strings.Contains(before, "<") {
				t.Fatalf("no line %d, or not at its place", i)
			}
		}
		if !strings.HasSuffix(text, " Warning: 7 entries of the log are lost, because it was not read\n") || strings.Count(text, long) != 3 {
			t.Errorf("the log has %d long lines, and ends in %q", strings.Count(text, long), text[max(0, len(text)-100):])
		}

		log.Info("the next")
		if !strings.HasSuffix(out.String(), "the next\n") {
			t.Error("a log that is read again is not waited for")
		}
	})
}

// What cannot be written goes to the spare core until it can be written again.
func TestQueueSpare(t *testing.T) {
	var file, spare strings.Builder
	full := errors.New("full")
	w := writerFunc(func(b []byte) (int, error) {
		if full != nil {
			return 0, full
		}
		return file.Write(b)
	})
	changes := 0
	l := &File{queue: newQueue(NewCore(w, "text")), Opened: true, Path: "x"}
	l.queue.spare = NewCore(&spare, "text")
	l.OnChange(func() { changes++ })
	for _, e := range []struct {
		err  error
		text string
	}{{nil, "first"}, {full, "second"}, {full, "third"}, {nil, "fourth"}} {
		full = e.err
		l.plain("test", e.text)
		l.queue.flush(time.Minute)
		if got := len(l.Problems()); got != 0 != (e.err != nil) {
			t.Errorf("%s: problems %q", e.text, l.Problems())
		}
	}
	if file.String() != "first\nfourth\n" {
		t.Errorf("written %q", file.String())
	}
	if got := spare.String(); !strings.Contains(got, "Error: cannot write to the log: full; its lines go to the standard error output\nsecond\nthird\n") {
		t.Errorf("elsewhere %q", got)
	}
	if changes != 2 {
		t.Errorf("%d changes", changes)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
