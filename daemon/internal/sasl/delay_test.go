package sasl_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
)

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sasl.NewDelays()
		want := func(addr, user string, want time.Duration) {
			t.Helper()
			got := d.Add(addr, user)
			if got != want {
				t.Errorf("a failure of %s from %s is delayed by %v, want %v", user, addr, got, want)
			}
			time.Sleep(got)
		}
		const ms = time.Millisecond
		for _, delay := range []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms} {
			want("10.0.0.1", "alice", delay)
		}
		var last time.Time
		for range 100 { // no overflow
			last = time.Now()
			want("10.0.0.1", "alice", 5000*ms)
		}
		// Other pairs have failures of their own.
		want("10.0.0.2", "alice", 100*ms)
		want("10.0.0.1", "bob", 100*ms)
		want("10.0.0.1", "", 100*ms)
		want("10.0.0.1", "", 200*ms)
		want("10.0.0.1", " bob ", 200*ms) // is bob for libsasl2

		time.Sleep(time.Until(last.Add(sasl.ForgetAfter - 1)))
		want("10.0.0.1", "alice", 5000*ms)
		time.Sleep(sasl.ForgetAfter)
		want("10.0.0.1", "alice", 100*ms)
	})
}

// The answers of a pair are in turn, however many connections they are for, and those of others
// are not. None is held back for longer than MaxHold.
func TestDelaysInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sasl.NewDelays()
		const ms = time.Millisecond
		for i, want := range []time.Duration{100 * ms, 300 * ms, 700 * ms, 1500 * ms, 3100 * ms, 6300 * ms,
			11300 * ms, 16300 * ms, 21300 * ms, 26300 * ms, sasl.MaxHold, sasl.MaxHold} {
			if got := d.Add("10.0.0.1", "alice"); got != want {
				t.Errorf("failure %d at the same time is delayed by %v, want %v", i, got, want)
			}
		}
		for _, p := range [][2]string{{"10.0.0.2", "alice"}, {"10.0.0.1", "bob"}} {
			if got := d.Add(p[0], p[1]); got != 100*ms {
				t.Errorf("a failure of %s from %s is delayed by %v", p[1], p[0], got)
			}
		}
		time.Sleep(sasl.MaxHold - time.Second)
		if got := d.Add("10.0.0.1", "alice"); got != 6*time.Second {
			t.Errorf("a failure a second before the last answer is due is delayed by %v", got)
		}
		time.Sleep(10 * time.Second)
		if got := d.Add("10.0.0.1", "alice"); got != 5*time.Second {
			t.Errorf("a failure after the others is delayed by %v", got)
		}
	})
}

// The number of pairs is limited, and one that is being guessed is not replaced by many with
// a failure each.
func TestDelaysEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := sasl.NewDelays()
		for range 3 {
			d.Add("10.0.0.1", "alice")
		}
		for i := range 2 * sasl.MaxPairs {
			time.Sleep(time.Nanosecond)
			d.Add("10.0.0.2", fmt.Sprint(i))
		}
		if n := d.Len(); n != sasl.MaxPairs {
			t.Errorf("%d pairs, want %d", n, sasl.MaxPairs)
		}
		time.Sleep(time.Minute)
		if got := d.Add("10.0.0.1", "alice"); got != 800*time.Millisecond {
			t.Errorf("the fourth failure of alice is delayed by %v", got)
		}
		if got := d.Add("10.0.0.2", "0"); got != 100*time.Millisecond {
			t.Errorf("the oldest pair was not replaced: delay %v", got)
		}
		time.Sleep(sasl.ForgetAfter)
		d.Add("10.0.0.3", "carol")
		if n := d.Len(); n != 1 {
			t.Errorf("%d pairs after the others were forgotten, want 1", n)
		}
	})
}

// Failures of several clients are counted at the same time.
func TestDelaysConcurrently(t *testing.T) {
	d := sasl.NewDelays()
	var wg sync.WaitGroup
	for _, user := range []string{"a", "a", "b"} {
		wg.Go(func() { d.Add("addr", user) })
	}
	wg.Wait()
	if got := d.Add("addr", "b"); got <= 0 {
		t.Errorf("another failure is delayed by %v", got)
	}
}
