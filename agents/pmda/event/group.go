package event

import (
	"maps"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/pdu"
)

// A Group has the queues and the clients of one agent. The zero Group is empty and
// ready to use. It implements agents.ContextEnder, also for an agent that embeds it.
// Its methods are safe for concurrent use, except as noted for EndContext.
type Group struct {
	mu      sync.Mutex // guards the following
	queues  map[*Queue]struct{}
	clients map[int32]struct{}
}

// NewQueue is like the function [NewQueue], but adds the queue to the group. The queue
// leaves the group when it is closed and has no clients.
func (g *Group) NewQueue(typ pdu.MetricType, maxBytes int) *Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.newQueue(typ, maxBytes)
}

// NewActiveQueue is like NewQueue, but all clients of the group are active in the new
// queue (pmdaEventNewActiveQueue). It is for metrics or instances that are added while
// clients fetch.
func (g *Group) NewActiveQueue(typ pdu.MetricType, maxBytes int) *Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.newQueue(typ, maxBytes)
	for id := range g.clients {
		q.Activate(id) // no other goroutine has q yet, so the order of locks does not matter
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

// NewClient adds a client to the group, unless it is there already
// (pmdaEventNewClient). Only NewActiveQueue and Clients depend on it.
func (g *Group) NewClient(id int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clients == nil {
		g.clients = make(map[int32]struct{})
	}
	g.clients[id] = struct{}{}
}

// Clients returns the number of clients in the group (pmdaEventClients).
func (g *Group) Clients() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.clients)
}

// EndContext removes a client from the group and all its queues. It must not be called
// concurrently with itself, NewClient or the client methods of a Queue; see [Queue].
func (g *Group) EndContext(id int32) {
	g.mu.Lock()
	delete(g.clients, id)
	queues := slices.Collect(maps.Keys(g.queues))
	g.mu.Unlock() // Queue.done locks it
	for _, q := range queues {
		q.EndClient(id)
	}
}
