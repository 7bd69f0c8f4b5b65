package event

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A Group ends clients in all its queues, and forgets closed queues without clients.
func TestGroup(t *testing.T) {
	var g Group
	g.EndContext(1)
	a := g.NewQueue(pdu.MetricEvent, 100)
	g.NewClient(1)
	g.NewClient(2)
	g.NewClient(1)
	b := g.NewActiveQueue(pdu.MetricHighResEvent, 100)
	for _, q := range []*Queue{a, b} {
		q.Allow(1, true)
		q.Append([]byte("x"), time.Unix(1, 2003))
	}
	if n := len(a.TakeRecords(1, decodeOne)); n != 0 {
		t.Errorf("%d records of a new queue", n)
	}
	if r := b.TakeRecords(1, decodeOne); len(r) != 1 || r[0].Nsec != 2003 {
		t.Errorf("%+v of a queue of NewActiveQueue", r)
	}
	if n, s := g.Clients(), b.Stats(); n != 2 || s.Clients != 2 || s.QueuedEvents != 1 {
		t.Errorf("%d clients, %+v", n, s)
	}
	g.EndContext(2)
	if n, s := g.Clients(), b.Stats(); n != 1 || s.Clients != 1 || s.QueuedEvents != 0 {
		t.Errorf("%d clients, %+v", n, s)
	}
	a.Close() // it has no unread events
	if len(g.queues) != 1 {
		t.Errorf("%d queues", len(g.queues))
	}
	b.Append([]byte("y"), time.Unix(1, 0))
	b.Close()
	if len(g.queues) != 1 {
		t.Errorf("%d queues", len(g.queues))
	}
	g.EndContext(1)
	if len(g.queues) != 0 || g.Clients() != 0 {
		t.Errorf("%d queues, %d clients", len(g.queues), g.Clients())
	}
	if err := b.Append(nil, time.Time{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	c := g.NewQueue(pdu.MetricEvent, 100)
	c.Allow(1, true)
	c.TakeRecords(1, decodeOne)
	c.Append([]byte("z"), time.Unix(1, 0))
	c.Close()
	if n := len(c.TakeRecords(1, decodeOne)); n != 1 || len(g.queues) != 0 {
		t.Errorf("%d records of a closed queue, then %d queues", n, len(g.queues))
	}
}

// The methods of a Group and the closing of its queues do not deadlock.
func TestConcurrentGroup(t *testing.T) {
	var g Group
	var wg sync.WaitGroup
	for w := range int32(4) {
		wg.Go(func() {
			for range 200 {
				g.NewClient(w)
				q := g.NewActiveQueue(pdu.MetricEvent, 100)
				q.Append([]byte("a"), time.Unix(1, 0))
				q.Close()
				g.EndContext(w)
			}
		})
	}
	wg.Wait()
	for id := range int32(4) {
		g.EndContext(id)
	}
	if len(g.queues) != 0 || g.Clients() != 0 {
		t.Errorf("%d queues, %d clients", len(g.queues), g.Clients())
	}
}
