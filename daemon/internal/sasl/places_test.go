package sasl

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

func groupKey(id uint64) fairqueue.Key {
	return fairqueue.Key{Group: fairqueue.Group{ID: id}}
}

// A login that is cancelled while it waits does not take a place. It calls look once.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1)
		looked := 0
		look := func() { looked++ }
		first, err := p.enter(t.Context(), groupKey(1), look)
		if err != nil || looked != 0 {
			t.Fatalf("%v, looked %d times", err, looked)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		go func() {
			if _, err := p.enter(ctx, groupKey(2), look); err != gone {
				t.Errorf("got %v", err)
			}
		}()
		synctest.Wait()
		cancel(gone)
		synctest.Wait()
		first.End()
		if looked != 1 || p.Used() != 0 || p.Waiting() != 0 {
			t.Errorf("looked %d times, %d places used, %d waiters; want 1, 0, 0", looked, p.Used(), p.Waiting())
		}
	})
}

// A place goes to the next one after some time, and is not given back twice.
func TestEnterFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1)
		began := time.Now()
		leave, err := p.enterFor(t.Context(), groupKey(1), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		leave2, err := p.enterFor(t.Context(), groupKey(1), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the second one got the place after %v", d)
		}
		leave()
		leave2()
		leave2()
		if n := p.Used(); n != 0 {
			t.Errorf("%d places are used", n)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("late"))
		defer cancel()
		defer p.Start(1, groupKey(1)).End()
		if _, err := p.enterFor(ctx, groupKey(1), time.Second); err == nil || err.Error() != "late" {
			t.Errorf("got %v", err)
		}
	})
}
