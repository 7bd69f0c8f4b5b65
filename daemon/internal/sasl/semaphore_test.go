package sasl

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

func ofGroup(id uint64) *Login {
	return &Login{Key: fairqueue.Key{Group: fairqueue.Group{ID: id}}}
}

// A login that is cancelled while it waits does not count. It calls waits once.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSemaphore(1)
		called := 0
		waits := func() { called++ }
		first, err := p.acquire(t.Context(), ofGroup(1), waits)
		if err != nil || called != 0 {
			t.Fatalf("%v, called %d times", err, called)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		go func() {
			if _, err := p.acquire(ctx, ofGroup(2), waits); err != gone {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		cancel(gone)
		synctest.Wait()
		first.End()
		if called != 1 || p.Used() != 0 || p.Waiting() != 0 {
			t.Errorf("called %d times, %d used, %d waiters; want 1, 0, 0", called, p.Used(), p.Waiting())
		}
	})
}

// While a login waits to begin, Check is called each second.
func TestCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSemaphore(1)
		l := ofGroup(1)
		began, gone := time.Now(), errors.New("gone")
		var after []time.Duration
		l.Check = func() error {
			after = append(after, time.Since(began))
			if len(after) == 3 {
				return gone
			}
			return nil
		}
		first, err := p.acquire(t.Context(), l, nil)
		if err != nil || len(after) != 0 {
			t.Fatalf("%v, called after %v", err, after)
		}
		if _, err := p.acquire(t.Context(), l, nil); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(after, want) {
			t.Errorf("called after %v, want %v", after, want)
		}
		if p.Waiting() != 0 {
			t.Error("it waits")
		}
		time.AfterFunc(1500*time.Millisecond, first.End)
		second, err := p.acquire(t.Context(), l, nil)
		if err != nil || len(after) != 4 {
			t.Fatalf("%v, called after %v", err, after)
		}
		second.End()
	})
}

// A use ends after some time, and is not ended twice.
func TestEnterFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSemaphore(1)
		began := time.Now()
		release, err := p.acquireFor(t.Context(), ofGroup(1), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		release2, err := p.acquireFor(t.Context(), ofGroup(1), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the second one began after %v", d)
		}
		release()
		release2()
		release2()
		if n := p.Used(); n != 0 {
			t.Errorf("%d are used", n)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("late"))
		defer cancel()
		var first fairqueue.Use
		p.Start(&first, 1, &ofGroup(1).Key)
		defer first.End()
		if _, err := p.acquireFor(ctx, ofGroup(1), time.Second); err == nil || err.Error() != "late" {
			t.Errorf("got %v", err)
		}
	})
}

// How many calls of the library compute at a time follows GOMAXPROCS.
func TestResize(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	h := &Host{calls: newSemaphore(1)}
	for procs, want := range map[int]int64{1: 1, 2: 1, 3: 1, 4: 2, 9: 7} {
		runtime.GOMAXPROCS(procs)
		if h.Resize(); h.calls.Limit() != want {
			t.Errorf("GOMAXPROCS=%d: %d calls, want %d", procs, h.calls.Limit(), want)
		}
	}
}
