package event

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A model is a simple implementation of a queue: a list of events, each with the
// clients that have not read it, and the events that each client has missed.
type model struct {
	maxBytes int
	events   []modelEvent
	clients  map[int32]*modelClient
	closed   bool
}

type modelEvent struct {
	sec    int64
	size   int
	unread map[int32]bool
}

type modelClient struct {
	active, allowed bool
	least           int // filter: minimum size of an event; -1 without a filter
	missed          int
	lastMissed      int64
}

func (m *model) client(id int32) *modelClient {
	if m.clients[id] == nil && !m.closed {
		m.clients[id] = &modelClient{least: -1}
	}
	return m.clients[id]
}

func (m *model) bytes() (n int) {
	for _, e := range m.events {
		n += e.size
	}
	return n
}

func (m *model) sweep() {
	var rest []modelEvent
	for _, e := range m.events {
		if len(e.unread) > 0 {
			rest = append(rest, e)
		}
	}
	m.events = rest
	if !m.closed {
		return
	}
	for id, c := range m.clients {
		left := c.active && c.missed > 0
		for _, e := range m.events {
			left = left || e.unread[id]
		}
		if !left {
			delete(m.clients, id)
		}
	}
}

func (m *model) append(sec int64, size int) {
	unread := make(map[int32]bool)
	for id, c := range m.clients {
		if c.active {
			unread[id] = true
		}
	}
	if m.closed || size > m.maxBytes || len(unread) == 0 {
		return
	}
	for m.bytes()+size > m.maxBytes || len(m.events) == max(fewEvents, m.maxBytes/minEvent) {
		for id := range m.events[0].unread {
			m.clients[id].missed++
			m.clients[id].lastMissed = m.events[0].sec
		}
		m.events = m.events[1:]
	}
	m.events = append(m.events, modelEvent{sec, size, unread})
}

// records returns a client's records: the second and the size of an event, or of missed
// events the second of the last one and minus their number.
func (m *model) records(id int32) (recs [][2]int64) {
	c := m.client(id)
	if c == nil {
		return nil
	}
	c.active = true
	if c.missed > 0 && (c.allowed || c.least >= 0) {
		recs = append(recs, [2]int64{c.lastMissed, -int64(c.missed)})
	}
	c.missed = 0
	for _, e := range m.events {
		if !e.unread[id] {
			continue
		}
		delete(e.unread, id)
		if c.least >= 0 && e.size >= c.least || c.least < 0 && c.allowed {
			recs = append(recs, [2]int64{e.sec, int64(e.size)})
		}
	}
	m.sweep()
	return recs
}

func (m *model) end(id int32) {
	delete(m.clients, id)
	for _, e := range m.events {
		delete(e.unread, id)
	}
	m.sweep()
}

// compare performs operations, of three bytes each, on a Queue and a model, and compares
// the results.
func compare(t *testing.T, ops []byte) {
	q := NewQueue(pdu.MetricHighResEvent, 300)
	m := &model{maxBytes: 300, clients: make(map[int32]*modelClient)}
	data := make([]byte, 316)
	sec := int64(0)
	for ; len(ops) >= 3; ops = ops[3:] {
		id := int32(ops[1] % 8)
		switch op := ops[0] % 32; {
		case op < 14:
			sec++
			size := int(ops[1])
			if op < 10 {
				size %= 20
			}
			if op == 13 {
				size += 60
			}
			q.Append(data[:size], time.Unix(sec, 0))
			m.append(sec, size)
		case op < 24:
			var got [][2]int64
			for _, r := range q.TakeRecords(id, decodeOne) {
				if r.Flags == pdu.EventMissed {
					got = append(got, [2]int64{r.Sec, -int64(r.Missed)})
				} else {
					got = append(got, [2]int64{r.Sec, int64(len(r.Params[0].Value))})
				}
			}
			want := m.records(id)
			if len(got) != len(want) {
				t.Fatalf("client %d: %v, want %v", id, got, want)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("client %d: %v, want %v", id, got, want)
				}
			}
		case op < 26:
			ok := ops[2]%4 > 0
			q.Allow(id, ok)
			if c := m.client(id); c != nil {
				c.allowed = ok
			}
		case op < 28:
			least := int(ops[2] % 32)
			q.SetFilter(id, func(e Event) bool { return len(e.Data) >= least })
			if c := m.client(id); c != nil {
				c.least, c.allowed = least, true
			}
		case op < 29:
			q.SetFilter(id, nil)
			if c := m.client(id); c != nil {
				c.least, c.allowed = -1, true
			}
		case op < 30:
			q.Activate(id)
			if c := m.client(id); c != nil {
				c.active = true
			}
		case op < 31:
			q.EndClient(id)
			m.end(id)
		case ops[1] == 0: // rarely
			q.Close()
			m.closed = true
			m.sweep()
		}
		active := 0
		for _, c := range m.clients {
			if c.active {
				active++
			}
		}
		s := q.Stats()
		if s.QueuedEvents != len(m.events) || s.QueuedBytes != m.bytes() || s.Clients != active || len(q.clients) != len(m.clients) {
			t.Fatalf("%+v and %d clients, want %d events of %d bytes and %d of %d clients active",
				s, len(q.clients), len(m.events), m.bytes(), active, len(m.clients))
		}
		checkInvariants(t, q)
	}
}

// randomOps returns n operations for compare.
func randomOps(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, 3*n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A Queue behaves like the model.
func TestModel(t *testing.T) {
	for seed := range uint64(50) {
		compare(t, randomOps(seed, 2000))
	}
}

func FuzzQueue(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(randomOps(seed, 100))
	}
	f.Fuzz(compare)
}
