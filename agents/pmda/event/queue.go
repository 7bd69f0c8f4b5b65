package event

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Errors of [Queue.Append].
var (
	ErrTooLong = errors.New("event is larger than its queue")
	ErrClosed  = errors.New("event queue is closed")
)

// MaxValue is the maximum size in bytes of a value of [Queue.TakeRecords]. Only a value
// with a single event may be larger. A value block has less than 16 MiB (pmValueBlock,
// pmapi.h).
const MaxValue = 1 << 20

// A queue has at most maxBytes/minEvent events, or fewEvents if that is more, because
// each event needs memory in addition to its data.
const (
	minEvent  = 32
	fewEvents = 64
)

// keepSlots is the largest ring that an empty queue keeps.
const keepSlots = 1024

// An Event is one entry of a queue.
type Event struct {
	Time time.Time
	Data []byte // must not be modified; it may be retained
}

// A Queue keeps events until all clients have read them (pmdaEventQueue(3)).
//
// Append and Stats are safe for concurrent use. The other methods are for clients and
// must be called by one goroutine at a time, as pmcd calls the methods of an
// agents.Agent.
type Queue struct {
	// Events are numbered. A client has the number of the next event to read, and a
	// slot has the number of clients at it. So the cost of adding or removing an
	// event does not depend on the number of clients.

	maxBytes  int
	maxEvents uint64
	done      func() // called, with mu held, when the queue is closed and has no clients
	array     Array  // for TakeRecords

	mu          sync.Mutex // guards the following
	clients     map[int32]*client
	active      int       // number of active clients
	ring        []slot    // its length is a power of two; event n is in ring[n%len(ring)]
	first       uint64    // number of the oldest event
	next        uint64    // number of the next event to be appended
	atEnd       int       // number of active clients that have read all events
	lastLost    time.Time // time of the last event that was dropped
	queuedBytes int       // bytes of data in ring
	count       uint64    // number of events so far
	bytes       uint64    // bytes of data of these events
	closed      bool
}

// A slot is an event in the ring. The readers of the oldest event are never 0: the
// event is removed when they read it.
type slot struct {
	Event
	readers int // number of active clients whose next event it is
}

type client struct {
	allowed bool
	keep    func(Event) bool // the filter
	active  bool
	pos     uint64 // number of the next event to read; below first if events were missed
}

// NewQueue returns a queue for a metric of type MetricEvent or
// MetricHighResEvent. It has at most maxBytes bytes of data, and at most one event for
// each 32 bytes of that limit, or 64 events if that is more. With small events the
// memory is up to five times maxBytes. If a new event exceeds a limit, the oldest
// events are dropped (pmdaEventNewQueue).
func NewQueue(typ pdu.MetricType, maxBytes int) *Queue {
	return &Queue{
		maxBytes:  maxBytes,
		maxEvents: uint64(max(fewEvents, maxBytes/minEvent)),
		array:     *NewArray(typ),
		clients:   make(map[int32]*client),
	}
}

// Append adds an event (pmdaEventQueueAppend). It copies data. If there are no active
// clients, it only counts the event. If data has more than the maxBytes of the queue,
// it counts the event and returns ErrTooLong.
func (q *Queue) Append(data []byte, when time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.count++
	q.bytes += uint64(len(data))
	if len(data) > q.maxBytes {
		return ErrTooLong
	}
	if q.active == 0 {
		return nil
	}
	for q.queuedBytes+len(data) > q.maxBytes || q.next-q.first == q.maxEvents {
		q.dropOldest()
	}
	q.grow()
	*q.slot(q.next) = slot{Event{when, bytes.Clone(data)}, q.atEnd}
	q.atEnd = 0
	q.next++
	q.queuedBytes += len(data)
	return nil
}

// slot returns the slot of event n, which is in the queue or is the next one.
func (q *Queue) slot(n uint64) *slot { return &q.ring[n%uint64(len(q.ring))] }

// readersAt returns a pointer to the number of clients whose next event is n.
func (q *Queue) readersAt(n uint64) *int {
	if n == q.next {
		return &q.atEnd
	}
	return &q.slot(n).readers
}

// grow makes the ring large enough for one more event.
func (q *Queue) grow() {
	if q.next-q.first < uint64(len(q.ring)) {
		return
	}
	ring := make([]slot, max(16, 2*len(q.ring)))
	for n := q.first; n < q.next; n++ {
		ring[n%uint64(len(ring))] = *q.slot(n)
	}
	q.ring = ring
}

// dropOldest removes the oldest event. Its readers miss it.
func (q *Queue) dropOldest() {
	s := q.slot(q.first)
	n := s.readers
	q.lastLost = s.Time
	q.freeOldest()
	*q.readersAt(q.first) += n
}

// freeOldest removes the oldest event from the ring.
func (q *Queue) freeOldest() {
	s := q.slot(q.first)
	q.queuedBytes -= len(s.Data)
	*s = slot{}
	q.first++
	if q.first == q.next && len(q.ring) > keepSlots {
		q.ring = nil
	}
}

// addReader counts c as a reader of its next event.
func (q *Queue) addReader(c *client) { *q.readersAt(max(c.pos, q.first))++ }

// removeReader is the reverse of addReader.
func (q *Queue) removeReader(c *client) { *q.readersAt(max(c.pos, q.first))-- }

// freeRead removes the oldest events that all clients have read.
func (q *Queue) freeRead() {
	for q.first < q.next && q.slot(q.first).readers == 0 {
		q.freeOldest()
	}
}

// moveTo makes n the next event of c.
func (q *Queue) moveTo(c *client, n uint64) {
	q.removeReader(c)
	c.pos = n
	q.addReader(c)
	q.freeRead()
}
