package session

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/pdu"
)

// A requestScratch has the buffers of a session, and what it decodes requests into. A
// session has one only while it handles input.
type requestScratch struct {
	turn *transport.Turn // of the session
	slot *slots.Slot     // of the session
	in   []byte          // input; PDUs before next are handled
	next int

	routes *routes.Table // for the current request
	out    []byte        // the reply

	fetchPDU pdu.Fetch
	distinct distinct
	result   pdu.ResultWriter
	namesOut pdu.NamesWriter
	subs     []subrequest          // of a fetch or store, one for each agent, or of descriptors
	subOf    [routes.Domains]int16 // index in subs plus 1; 0 between requests
	absent   int16                 // the same of the subrequest for all domains without an agent
	order    []*subrequest         // in the order in which agents are asked

	call transport.Call
	req  []byte // a request to an agent
	ans  []byte // its answer

	large bool // is of largeScratches
	lent  int  // how many buffers BeforeWait has put into replyBuffers
}

// A subrequest is the part of a request that is for one agent.
type subrequest struct {
	agent  *agentset.Agent
	conn   *agentset.Conn
	absent bool // the domains have no agent
	fetch  pdu.Fetch
	call   transport.Call
	sent   transport.Reply // to call
	req    []byte
	reply  []byte
	sets   pdu.Sets
	store  []pdu.ValueSet // of a store
	err    pdu.Errno      // in place of values
	usual  time.Duration  // how long the agent usually takes
}

// Scratches that have grown have a pool of their own, for sessions that need them. So a
// session with small requests does not hold large buffers.
var scratches, largeScratches sync.Pool

const (
	// maxNormal is the most memory that a scratch of scratches has in buffers.
	maxNormal = 16 << 10

	// maxKept is the most memory that a buffer may have that is used again, enough for ten
	// thousand values. The garbage collector frees what is in the pools.
	maxKept = 1 << 20

	// largeTurns is for how many turns a session whose scratch has grown gets a large
	// one. After that it gets a small one, which grows again if necessary.
	largeTurns = 255
)

// A scratchHistory says whether a session has recently needed a large scratch. The zero
// value says that it has not.
type scratchHistory struct {
	turns uint8 // how many more turns the session gets a large scratch
}

// acquire returns a scratch for a turn.
func (h *scratchHistory) acquire() *requestScratch {
	if h.turns > 0 {
		if w, ok := largeScratches.Get().(*requestScratch); ok {
			return w
		}
	}
	if w, ok := scratches.Get().(*requestScratch); ok {
		return w
	}
	return &requestScratch{in: make([]byte, 0, 2<<10)}
}

// release puts w back after a turn.
func (h *scratchHistory) release(w *requestScratch) {
	grown := w.clear()
	if grown {
		h.turns = largeTurns
	} else if h.turns > 0 {
		h.turns--
	}
	if w.large {
		largeScratches.Put(w)
	} else {
		scratches.Put(w)
	}
}

// clear forgets what was handled, and frees buffers that are too large to be kept.
// It reports whether w has become large.
func (w *requestScratch) clear() (grown bool) {
	w.turn, w.slot, w.in, w.next, w.routes, w.lent = nil, nil, w.in[:0], 0, nil, 0
	w.call.Key, w.call.Waiter = nil, nil
	w.namesOut = pdu.NamesWriter{} // has pieces of a name space
	if w.result.Cap() > maxKept {
		w.result = pdu.ResultWriter{}
	}
	for _, b := range []*[]byte{&w.out, &w.req, &w.ans} {
		if cap(*b) > maxKept {
			*b = nil
		}
	}
	if w.distinct.bytes() > maxKept {
		w.distinct = distinct{}
	}
	if cap(w.in) > freeRequest { // holdRequest has accounted for this session only
		w.in = make([]byte, 0, 2<<10)
	}
	large := 0
	for i := range w.subs[:cap(w.subs)] {
		p := &w.subs[:cap(w.subs)][i]
		p.agent, p.conn, p.sent, p.call.Key, p.call.Waiter = nil, nil, nil, nil, nil
		clear(p.store[:cap(p.store)]) // aliases the input
		if large += cap(p.req) + cap(p.reply) + p.sets.Cap(); large > maxKept {
			p.req, p.reply, p.sets = nil, nil, pdu.Sets{}
		}
	}
	// What result writes to is out.
	large += max(w.result.Cap(), cap(w.out)) + cap(w.in) + cap(w.req) + cap(w.ans) + w.distinct.bytes()
	grown = !w.large && large > maxNormal
	w.large = large > maxNormal
	return grown
}

// shed frees large buffers, other than that of the input. It is called between two
// requests of a turn, and when w has to wait for its client, for input or until that has
// taken a large reply: many clients may wait at a time.
func (w *requestScratch) shed() {
	for _, b := range []*[]byte{&w.out, &w.req, &w.ans} {
		if cap(*b) > maxNormal {
			*b = nil
		}
	}
	if w.result.Cap() > maxNormal {
		w.result = pdu.ResultWriter{}
	}
	for i := range w.subs[:cap(w.subs)] {
		if p := &w.subs[:cap(w.subs)][i]; cap(p.req)+cap(p.reply)+p.sets.Cap() > maxNormal/8 {
			p.req, p.reply, p.sets = nil, nil, pdu.Sets{}
		}
	}
}

// replyBuffers are the large buffers for replies of sessions that wait for their turns at
// agents, of type *[]byte.
var replyBuffers sync.Pool

// A waiter is a requestScratch as a transport.Waiter.
type waiter struct{ *requestScratch }

// BeforeWait implements transport.Waiter: it gives the slot of the session back. If the
// request waits for its turn at an agent, it puts the large buffers for replies into
// replyBuffers: many may wait at a time, but only those that have their turns need large
// buffers.
func (w waiter) BeforeWait(sent bool) {
	w.slot.Release()
	if sent {
		return
	}
	if w.result.Cap() > maxNormal || cap(w.out) > maxNormal {
		w.result = pdu.ResultWriter{} // may write to the memory of out
	}
	w.lend(&w.out, len(w.out)) // the beginning of the reply
	w.lend(&w.ans, 0)
	for i := range w.subs[:cap(w.subs)] {
		w.lend(&w.subs[:cap(w.subs)][i].reply, 0)
	}
}

// lend puts *b into replyBuffers if it is large, and its first n bytes in its place.
func (w *requestScratch) lend(b *[]byte, n int) {
	buf := *b
	if cap(buf) <= maxNormal {
		return
	}
	*b = append([]byte(nil), buf[:n]...)
	if cap(buf) <= maxKept {
		replyBuffers.Put(&buf)
		w.lent++
	}
}

// borrow returns dst, or a large buffer with the same bytes in place of one that was lent.
func (w *requestScratch) borrow(dst []byte) []byte {
	if w.lent == 0 {
		return dst
	}
	w.lent--
	if b, ok := replyBuffers.Get().(*[]byte); ok && cap(*b) > cap(dst) {
		return append((*b)[:0], dst...)
	}
	return dst
}

// sub returns the subrequest for a domain, which is new if there is none yet. All domains
// without an agent, of which a request can name hundreds, have one.
func (w *requestScratch) sub(domain int) *subrequest {
	if i := w.subOf[domain]; i != 0 {
		return &w.subs[i-1]
	}
	absent := w.routes.Agent(domain) == nil
	if absent && w.absent != 0 {
		w.subOf[domain] = w.absent
		return &w.subs[w.absent-1]
	}
	p := w.nextSub()
	p.absent = absent
	w.subOf[domain] = int16(len(w.subs))
	if absent {
		w.absent = w.subOf[domain]
	}
	return p
}

// nextSub returns one more subrequest.
func (w *requestScratch) nextSub() *subrequest {
	if len(w.subs) < cap(w.subs) {
		w.subs = w.subs[:len(w.subs)+1]
	} else {
		w.subs = append(w.subs, subrequest{})
	}
	p := &w.subs[len(w.subs)-1]
	p.agent, p.conn, p.sent, p.fetch.PMIDs, p.err = nil, nil, nil, p.fetch.PMIDs[:0], 0
	p.absent = false
	p.req, p.reply = p.req[:0], p.reply[:0]
	p.store = p.store[:0]
	return p
}

// slowestFirst returns the subrequests of a fetch in the order in which their agents are
// asked.
func (w *requestScratch) slowestFirst() []*subrequest {
	w.order = w.order[:0]
	for i := range w.subs {
		p := &w.subs[i]
		p.usual = 0
		if a := w.routes.Agent(p.fetch.PMIDs[0].Domain()); a != nil {
			p.usual = a.TypicalLatency()
		}
		w.order = append(w.order, p)
	}
	slices.SortStableFunc(w.order, func(p, q *subrequest) int { return cmp.Compare(q.usual, p.usual) })
	return w.order
}

// reset forgets the subrequests of the last request.
func (w *requestScratch) reset() {
	clear(w.subOf[:])
	w.absent = 0
	w.subs = w.subs[:0]
}
