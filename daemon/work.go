package daemon

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

// A work is what a session needs while it handles input, and gives back when
// there is no more: buffers and what is decoded into. Clients that are idle
// have none.
type work struct {
	in   []byte // input; PDUs before next are handled
	next int

	routes *routes.Table // of the request in hand
	out    []byte        // the reply

	fetch  pdu.Fetch
	result pdu.ResultWriter
	names  pdu.NamesWriter
	parts  []part                // of a fetch or store, one for each agent, or of descriptors
	partOf [routes.Domains]int16 // index in parts plus 1; 0 between requests
	order  []*part               // in which they are asked

	call transport.Call
	req  []byte // a request to an agent
	ans  []byte // its answer

	large bool // is of largeWorks
}

// A part of a request goes to one agent.
type part struct {
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

// Works that have grown are kept apart, for sessions that need them: a session with
// small requests does not hold, and pmcd.datasize does not show, what others needed.
var works, largeWorks sync.Pool

const (
	// modest is the most memory that a work of works has in buffers.
	modest = 16 << 10

	// keep is the most memory that a buffer may take to the next user, enough for
	// ten thousand values. What no session uses is the garbage collector's, as the pools
	// are emptied by it.
	keep = 1 << 20

	// largeTurns is for how many turns a session whose work has grown gets such a
	// one. Then it shows again whether it needs that.
	largeTurns = 255
)

// newWork returns one for a turn of s.
func (s *session) newWork() *work {
	if s.largeTurns > 0 {
		if w, ok := largeWorks.Get().(*work); ok {
			return w
		}
	}
	if w, ok := works.Get().(*work); ok {
		return w
	}
	return &work{in: make([]byte, 0, 2<<10)}
}

// putBack gives w back as it came.
func (w *work) putBack() {
	if w.large {
		largeWorks.Put(w)
	} else {
		works.Put(w)
	}
}

// release gives w back after a turn of s.
func (w *work) release(s *session) {
	w.in, w.next, w.routes = w.in[:0], 0, nil
	w.names = pdu.NamesWriter{} // has pieces of a name space
	if w.result.Cap() > keep {
		w.result = pdu.ResultWriter{}
	}
	for _, b := range []*[]byte{&w.out, &w.req, &w.ans} {
		if cap(*b) > keep {
			*b = nil
		}
	}
	if cap(w.in) > keep {
		w.in = make([]byte, 0, 2<<10)
	}
	large := 0
	for i := range w.parts[:cap(w.parts)] {
		p := &w.parts[:cap(w.parts)][i]
		p.agent, p.conn, p.sent = nil, nil, nil
		clear(p.store[:cap(p.store)]) // aliases the input
		if large += cap(p.req) + cap(p.reply) + p.sets.Cap(); large > keep {
			p.req, p.reply, p.sets = nil, nil, pdu.Sets{}
		}
	}
	// What result writes to is out.
	large += max(w.result.Cap(), cap(w.out)) + cap(w.in) + cap(w.req) + cap(w.ans)
	grown := !w.large && large > modest
	w.large = large > modest
	if grown {
		s.largeTurns = largeTurns
	} else if s.largeTurns > 0 {
		s.largeTurns--
	}
	w.putBack()
}

// part returns the part of w for a domain, which is new if there is none yet.
func (w *work) part(domain int) *part {
	if i := w.partOf[domain]; i != 0 {
		return &w.parts[i-1]
	}
	p := w.nextPart()
	w.partOf[domain] = int16(len(w.parts))
	return p
}

// nextPart returns one more part of w.
func (w *work) nextPart() *part {
	if len(w.parts) < cap(w.parts) {
		w.parts = w.parts[:len(w.parts)+1]
	} else {
		w.parts = append(w.parts, part{})
	}
	p := &w.parts[len(w.parts)-1]
	p.agent, p.conn, p.sent, p.fetch.PMIDs, p.err = nil, nil, nil, p.fetch.PMIDs[:0], 0
	p.req, p.reply = p.req[:0], p.reply[:0]
	p.store = p.store[:0]
	return p
}

// slowestFirst returns the parts of a fetch in the order in which their agents are
// asked.
func (w *work) slowestFirst() []*part {
	w.order = w.order[:0]
	for i := range w.parts {
		p := &w.parts[i]
		p.usual = 0
		if a := w.routes.Agent(p.fetch.PMIDs[0].Domain()); a != nil {
			p.usual = a.TypicalLatency()
		}
		w.order = append(w.order, p)
	}
	slices.SortStableFunc(w.order, func(p, q *part) int { return cmp.Compare(q.usual, p.usual) })
	return w.order
}

// reset forgets the parts of the last request. ids name their domains.
func (w *work) reset() {
	clear(w.partOf[:])
	w.parts = w.parts[:0]
}
