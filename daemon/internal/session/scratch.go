package session

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
)

// A requestScratch is what a session needs while it handles input, and releases when
// there is no more: buffers and what is decoded into. Idle clients have none.
type requestScratch struct {
	turn *transport.Turn // of the session
	in   []byte          // input; PDUs before next are handled
	next int

	routes *routes.Table // for the current request
	out    []byte        // the reply

	fetchPDU pdu.Fetch
	result   pdu.ResultWriter
	namesOut pdu.NamesWriter
	subs     []subrequest          // of a fetch or store, one for each agent, or of descriptors
	subOf    [routes.Domains]int16 // index in subs plus 1; 0 between requests
	order    []*subrequest         // in which they are asked

	call transport.Call
	req  []byte // a request to an agent
	ans  []byte // its answer

	large bool // is of largeScratches
}

// A subrequest is what one agent is sent of a request.
type subrequest struct {
	agent *agentset.Agent
	conn  *agentset.Conn
	fetch pdu.Fetch
	call  transport.Call
	sent  transport.Reply // to call
	req   []byte
	reply []byte
	sets  pdu.Sets
	store []pdu.ValueSet // of a store
	err   pdu.Errno      // in place of values
	usual time.Duration  // what the agent takes
}

// Scratches that have grown are kept apart, for sessions that need them: a session
// with small requests does not hold, and pmcd.datasize does not show, what others
// needed.
var scratches, largeScratches sync.Pool

const (
	// maxNormal is the most memory that a scratch of scratches has in buffers.
	maxNormal = 16 << 10

	// maxKept is the most memory that a buffer may take to the next user, enough for
	// ten thousand values. What no session uses is the garbage collector's, as the pools
	// are emptied by it.
	maxKept = 1 << 20

	// largeTurns is for how many turns a session whose scratch has grown gets such a
	// one. Then it shows again whether it needs that.
	largeTurns = 255
)

// A scratchHistory is what size of scratch a session has needed of late. The zero
// value has needed little.
type scratchHistory struct {
	turns uint8 // for which a scratch that has grown is used
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
	w.turn, w.in, w.next, w.routes = nil, w.in[:0], 0, nil
	w.namesOut = pdu.NamesWriter{} // has pieces of a name space
	if w.result.Cap() > maxKept {
		w.result = pdu.ResultWriter{}
	}
	for _, b := range []*[]byte{&w.out, &w.req, &w.ans} {
		if cap(*b) > maxKept {
			*b = nil
		}
	}
	if cap(w.in) > maxKept {
		w.in = make([]byte, 0, 2<<10)
	}
	large := 0
	for i := range w.subs[:cap(w.subs)] {
		p := &w.subs[:cap(w.subs)][i]
		p.agent, p.conn, p.sent = nil, nil, nil
		clear(p.store[:cap(p.store)]) // aliases the input
		if large += cap(p.req) + cap(p.reply) + p.sets.Cap(); large > maxKept {
			p.req, p.reply, p.sets = nil, nil, pdu.Sets{}
		}
	}
	// What result writes to is out.
	large += max(w.result.Cap(), cap(w.out)) + cap(w.in) + cap(w.req) + cap(w.ans)
	grown = !w.large && large > maxNormal
	w.large = large > maxNormal
	return grown
}

// sub returns the subrequest for a domain, which is new if there is none yet.
func (w *requestScratch) sub(domain int) *subrequest {
	if i := w.subOf[domain]; i != 0 {
		return &w.subs[i-1]
	}
	p := w.nextSub()
	w.subOf[domain] = int16(len(w.subs))
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
	w.subs = w.subs[:0]
}
