package transport

import (
	"sync"
	"sync/atomic"

	"github.com/gopcp/pmcd/agents"
)

// Notices are the Notices that an agent has not got yet. A second Notice about the
// same client is merged with the first, so there are never more than clients. It is
// for implementations of [Transport]; the zero value is empty.
type Notices struct {
	some atomic.Bool // byClient is not empty

	mu       sync.Mutex // guards the following
	byClient map[int32]Notice
	order    []int32
}

// Add adds n behind the Notices about other clients.
func (q *Notices) Add(n Notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byClient == nil {
		q.byClient = make(map[int32]Notice)
	}
	old, ok := q.byClient[n.Client]
	if !ok {
		q.order = append(q.order, n.Client)
	} else if !n.End {
		n.End = old.End
	}
	q.byClient[n.Client] = n
	q.some.Store(true)
}

// Any reports whether there is a Notice.
func (q *Notices) Any() bool { return q.some.Load() }

// Take removes all Notices and returns them.
func (q *Notices) Take() []Notice {
	if !q.Any() {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]Notice, len(q.order))
	for i, client := range q.order {
		list[i] = q.byClient[client]
	}
	clear(q.byClient)
	q.order = q.order[:0]
	q.some.Store(false)
	return list
}

// tell calls the methods of a that n is for, if a has them.
func tell(a agents.Agent, n Notice) {
	if e, ok := a.(agents.ContextEnder); ok && n.End {
		e.EndContext(n.Client)
	}
	if s, ok := a.(agents.AttrSetter); ok {
		for _, attr := range n.Attrs {
			s.SetAttr(n.Client, attr)
		}
	}
}
