package event

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Several goroutines append while clients read. Each client gets the events of each
// goroutine in order, or a record of missed events.
func TestConcurrent(t *testing.T) {
	const (
		writers = 4
		each    = 3000
		clients = 5
	)
	q := NewQueue(pdu.MetricHighResEvent, 10000)
	for id := range int32(clients) {
		q.Allow(id, true)
		q.Activate(id)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				q.Append(fmt.Appendf(nil, "event %d of %d", i, w), time.Unix(int64(w), int64(i)))
				if i%100 == 0 {
					q.Stats()
				}
			}
		})
	}
	written := make(chan struct{})
	go func() {
		wg.Wait()
		close(written)
	}()
	seen := make([]int, clients)
	var last [clients][writers]int64
	read := func(id int32) {
		for _, r := range q.TakeRecords(id, decodeOne) {
			if r.Flags == pdu.EventMissed {
				seen[id] += int(r.Missed)
				continue
			}
			seen[id]++
			if want := fmt.Sprintf("event %d of %d", r.Nsec, r.Sec); string(r.Params[0].Value) != want {
				t.Fatalf("%q, want %q", r.Params[0].Value, want)
			}
			if at := &last[id][r.Sec]; r.Nsec < *at {
				t.Fatalf("client %d: event %d of %d after %d", id, r.Nsec, r.Sec, *at-1)
			} else {
				*at = r.Nsec + 1
			}
		}
	}
	for end := false; !end; {
		select {
		case <-written:
			end = true
		default:
		}
		for id := range int32(clients) {
			read(id)
		}
	}
	for id, n := range seen {
		if n != writers*each {
			t.Errorf("client %d got or missed %d events of %d", id, n, writers*each)
		}
	}
	checkInvariants(t, q)
	if s := q.Stats(); s.QueuedEvents != 0 || s.Count != writers*each {
		t.Errorf("%+v", s)
	}
}

// newQueueFor returns a queue with active clients.
func newQueueFor(clients int) *Queue {
	q := NewQueue(pdu.MetricEvent, 2<<20)
	for id := range int32(clients) {
		q.Allow(id, true)
		q.Activate(id)
	}
	return q
}

var line = []byte("Nov 21 16:25:46 host daemon[123]: something has happened, and not for the first time")

// The cost of appending an event must not depend on the number of clients.
func BenchmarkAppend(b *testing.B) {
	for _, clients := range []int{0, 1, 1000} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			q := newQueueFor(clients)
			when := time.Unix(1, 0)
			b.ReportAllocs()
			for b.Loop() {
				q.Append(line, when)
			}
		})
	}
}

// An operation is one event that one client reads, including its share of appending.
// Events are read in batches of a hundred.
func BenchmarkRecords(b *testing.B) {
	for _, clients := range []int{1, 1000} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			q := newQueueFor(clients)
			when := time.Unix(1, 0)
			b.ReportAllocs()
			for n := 0; n < b.N; {
				for range 100 {
					q.Append(line, when)
				}
				for id := range int32(clients) {
					n += len(q.TakeRecords(id, decodeOne))
				}
			}
		})
	}
}

// A client is added and removed without reading an event, while a thousand other
// clients have unread events.
func BenchmarkEnd(b *testing.B) {
	q := newQueueFor(1000)
	for b.Loop() {
		q.Activate(1000)
		q.Append(line, time.Time{})
		q.EndClient(1000)
	}
}
