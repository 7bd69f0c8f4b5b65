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

// MaxValue is the size of a value that [Queue.TakeRecords] does not pass, in bytes,
// unless one event alone makes more than that. A value block has less than
// 16 MiB (pmValueBlock, pmapi.h).
const MaxValue = 1 << 20

// minEvent is what an event takes of a queue's maxBytes at least if there are
// more than fewEvents: small ones cost more for what is around them.
const (
	minEvent  = 32
	fewEvents = 64
)

// keepSlots is the size of the ring that an empty queue keeps.
const keepSlots = 1024

// An Event is one entry of a queue.
type Event struct {
	Time time.Time
	Data []byte // must not be changed; stays as it is for as long as somebody has it
}

// A Queue keeps events until all clients have read them (pmdaEventQueue(3)).
//
// Append and Stats may be called by any goroutine. The other methods are for
// clients, and are called by one goroutine at a time, as the methods of an
// agents.Agent are.
//
// Events are numbered as they come. A client is no more than the number of the
// event that it has to read next, so what it has missed is a difference, and
// nothing is done for each client when an event comes or goes.
type Queue struct {
	maxBytes  int
	maxEvents uint64
	done      func() // called, with mu held, when a closed queue has lost its last client
	array     Array  // of Records

	mu          sync.Mutex // guards the following
	clients     map[int32]*client
	active      int       // clients that read
	ring        []slot    // a power of two; event n is in ring[n%len(ring)]
	first       uint64    // the oldest event
	next        uint64    // the number of the next to come
	atEnd       int       // clients that have read all
	lastLost    time.Time // of the last event that was dropped
	queuedBytes int       // bytes
	count       uint64    // events so far, and their bytes
	bytes       uint64
	closed      bool
}

// A slot is an event and how many clients have to read it next. The oldest
// event has such clients always: it is let go when they move on.
type slot struct {
	Event
	readers int
}

type client struct {
	allowed bool
	keep    func(Event) bool
	active  bool
	pos     uint64 // below first if events are missed
}

// NewQueue returns a queue for a metric of type MetricEvent or
// MetricHighResEvent. It holds at most maxBytes bytes of data, and one event
// for each 32 of them, which is up to five times the memory if all are that
// small; older events go when that is not enough (pmdaEventNewQueue).
func NewQueue(typ pdu.MetricType, maxBytes int) *Queue {
	return &Queue{
		maxBytes:  maxBytes,
		maxEvents: uint64(max(fewEvents, maxBytes/minEvent)),
		array:     *NewArray(typ),
		clients:   make(map[int32]*client),
	}
}

// Append adds an event (pmdaEventQueueAppend). The data is copied. If there are
// no active clients the event is only counted; the same holds for ErrTooLong.
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

// slot returns that of event n, which is in the queue or the next to come.
func (q *Queue) slot(n uint64) *slot { return &q.ring[n%uint64(len(q.ring))] }

// readersAt returns the number of clients that have to read event n next.
func (q *Queue) readersAt(n uint64) *int {
	if n == q.next {
		return &q.atEnd
	}
	return &q.slot(n).readers
}

// grow makes room for one more event in the ring.
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

// dropOldest lets go of the oldest event, whoever has not read it.
func (q *Queue) dropOldest() {
	s := q.slot(q.first)
	n := s.readers
	q.lastLost = s.Time
	q.freeOldest()
	*q.readersAt(q.first) += n
}

// freeOldest forgets the oldest event.
func (q *Queue) freeOldest() {
	s := q.slot(q.first)
	q.queuedBytes -= len(s.Data)
	*s = slot{}
	q.first++
	if q.first == q.next && len(q.ring) > keepSlots {
		q.ring = nil
	}
}

// addReader counts an active client at pos, leave no longer does.
func (q *Queue) addReader(c *client) { *q.readersAt(max(c.pos, q.first))++ }

func (q *Queue) removeReader(c *client) { *q.readersAt(max(c.pos, q.first))-- }

// freeRead forgets what nobody has to read any more.
func (q *Queue) freeRead() {
	for q.first < q.next && q.slot(q.first).readers == 0 {
		q.freeOldest()
	}
}

// moveTo has c read event n next.
func (q *Queue) moveTo(c *client, n uint64) {
	q.removeReader(c)
	c.pos = n
	q.addReader(c)
	q.freeRead()
}
