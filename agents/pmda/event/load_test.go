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
