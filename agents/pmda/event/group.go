package event

import (
	"maps"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/pdu"
)

// A Group is the queues of one agent and the clients that it knows. The zero
// Group is empty and ready to use. It is an agents.ContextEnder, and so is an
// agent that embeds it. Its methods may be called by any goroutine.
type Group struct {
	mu      sync.Mutex // guards the following
	queues  map[*Queue]struct{}
	clients map[int32]struct{}
}

// NewQueue is [NewQueue] for a queue of the group. It belongs to the group
// until it is closed and its last client has gone.
func (g *Group) NewQueue(typ pdu.MetricType, maxBytes int) *Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newQueue(typ, maxBytes)
}

// NewActiveQueue is NewQueue for a queue that comes into being while clients
// look on: all clients of the group are active in it from the start
// (pmdaEventNewActiveQueue).
func (g *Group) NewActiveQueue(typ pdu.MetricType, maxBytes int) *Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.newQueue(typ, maxBytes)
	for id := range g.clients {
		q.Activate(id) // nobody else has q yet, so there is no wrong order of locks
	}
	return q
}

func (g *Group) newQueue(typ pdu.MetricType, maxBytes int) *Queue {
	q := NewQueue(typ, maxBytes)
	q.done = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.queues, q)
	}
	if g.queues == nil {
		g.queues = make(map[*Queue]struct{})
	}
	g.queues[q] = struct{}{}
	return q
}

// NewClient makes a client known, if it is not yet (pmdaEventNewClient). Only
// NewActiveQueue and Clients need that.
func (g *Group) NewClient(id int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients == nil {
		g.clients = make(map[int32]struct{})
	}
	g.clients[id] = struct{}{}
}

// Clients returns the number of known clients (pmdaEventClients).
func (g *Group) Clients() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.clients)
}

// EndContext forgets a client in all queues. Together with NewClient, and with
// the methods of queues that are for clients, it is called by one goroutine at
// a time.
func (g *Group) EndContext(id int32) {
	g.mu.Lock()
	delete(g.clients, id)
	queues := slices.Collect(maps.Keys(g.queues))
	g.mu.Unlock() // a queue that is done wants it
	for _, q := range queues {
		q.EndClient(id)
	}
}
