package main

import (
	"slices"
	"sync"
	"time"
)

// warmUp is how long a load runs before it is measured.
const warmUp = 100 * time.Millisecond

// maxErrors is how many errors a client of a load makes before it gives up.
const maxErrors = 100

// A load is a number of clients. Each sends its next request when it has the reply
// to the last one.
type load struct {
	clients int
	open    func() (*client, error) // nil: op connects itself
	op      func(c *client, seq int) error
	warm    time.Duration
	time    time.Duration   // measured
	stop    <-chan struct{} // if not nil, the end, in place of time
	started func()          // called when the warm-up is over
}

// A timing is the measurements of a load.
type timing struct {
	took    []time.Duration // by each operation, ascending
	elapsed time.Duration   // from the first to the end of the last
	errs    int
	err     error // the first
}

// run connects the clients, one after the other, and then runs them concurrently.
// Each finishes at least one operation, or fails.
func (l load) run() timing {
	var t timing
	var conns []*client
	for range l.clients {
		var c *client
		if l.open != nil {
			var err error
			if c, err = l.open(); err != nil {
				t.fail(err)
				continue
			}
		}
		conns = append(conns, c)
	}
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		begin = time.Now().Add(l.warm)
	)
	if l.started != nil {
		wg.Go(func() {
			time.Sleep(time.Until(begin))
			l.started()
		})
	}
	for _, c := range conns {
		wg.Go(func() {
			one := l.client(c, begin)
			mu.Lock()
			defer mu.Unlock()
			t.took = append(t.took, one.took...)
			t.elapsed = max(t.elapsed, one.elapsed)
			t.errs += one.errs
			if t.err == nil {
				t.err = one.err
			}
		})
	}
	wg.Wait()
	slices.Sort(t.took)
	return t
}

// client runs one of the clients with the connection c, which it closes. Operations
// that start before begin do not count.
func (l load) client(c *client, begin time.Time) (t timing) {
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	t.took = make([]time.Duration, 0, 1<<14)
	var first time.Time
	end := begin.Add(l.time)
	over := func(now time.Time) bool {
		if l.stop == nil {
			return !now.Before(end) && len(t.took) > 0
		}
		select {
		case <-l.stop:
			return true
		default:
			return false
		}
	}
	for seq, now := 0, time.Now(); !over(now) && t.errs < maxErrors; seq++ {
		from := now
		err := l.op(c, seq)
		now = time.Now()
		if err != nil {
			t.fail(err)
			if c != nil && isBroken(err) {
				c.Close()
				if c, err = l.open(); err != nil {
					t.fail(err)
					return t
				}
			}
			continue
		}
		if from.Before(begin) {
			continue
		}
		if len(t.took) == 0 {
			first = from
		}
		t.took = append(t.took, now.Sub(from))
		t.elapsed = now.Sub(first)
	}
	return t
}

func (t *timing) fail(err error) {
	if t.errs++; t.err == nil {
		t.err = err
	}
}

// at returns the quantile q of the latencies, in microseconds.
func (t *timing) at(q float64) float64 {
	if len(t.took) == 0 {
		return 0
	}
	return t.took[min(len(t.took)-1, int(q*float64(len(t.took))))].Seconds() * 1e6
}

// rate returns the number of operations a second.
func (t *timing) rate() float64 {
	if t.elapsed == 0 {
		return 0
	}
	return float64(len(t.took)) / t.elapsed.Seconds()
}
