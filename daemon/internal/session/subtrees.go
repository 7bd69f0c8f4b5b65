package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
)

// subtrees are the dynamic parts of the name space that clients asked for and
// did not get. A client is told with its next fetch (StateNamesChange) when one
// of its missing subtrees is available again.
//
// An agent that was not asked, because it is down, fenced, late or not ready,
// loses all its subtrees at once, and they come back with it: clients are told
// when it is started, unfenced or ready again. An agent that was asked for one
// subtree and failed is asked again by pmcd, at growing intervals, while clients
// that miss the subtree are connected: a client that was told too early would ask,
// make the agent fail, and be told again.
type subtrees struct {
	routes  func() *routes.Table
	timeout func() time.Duration // for an agent to answer a probe
	probes  sync.WaitGroup

	n    atomic.Int32 // of missing and logged, to be read without mu
	next atomic.Int64 // when the first check is due, in ns since 1970; 0 is never

	mu      sync.Mutex // guards the following, which sessions, probes and the supervision of agents use
	missing map[subtree]*gap
	logged  map[int]gapKinds // failures in the log, by domain, since the agent has answered
}

// A subtree is a dynamic root and what is below it, or all of an agent's if root
// is "".
type subtree struct {
	domain int
	root   string
}

// A gap is a subtree that is missing. It remains when its clients have disconnected,
// until the agent answers.
type gap struct {
	clients map[*clients.Client]struct{}
	wait    time.Duration // between checks
	next    time.Time     // when a check is due; zero while one is on its way
}

// A gapKind is why a subtree is missing.
type gapKind uint8

const (
	gapAbsent gapKind = iota
	gapDown
	gapFenced
	gapNotReady
	gapLate
	gapFailed
)

// gapKinds is a set of them.
type gapKinds uint8

// Time between two checks of a subtree. To ask an agent that hangs costs it its
// values for a while, so each failure doubles the time.
const (
	firstCheck = time.Second
	lastCheck  = 10 * time.Minute
)

// failedNames reports whether err, what became of a request for names, is a
// failure, and not an answer that there are none.
func failedNames(err error) bool { return err != nil && !errors.Is(err, pdu.ErrnoName) }

// miss notes that c did not get a subtree, and reports whether that is worth a
// line in the log.
func (t *subtrees) miss(c *clients.Client, key subtree, kind gapKind) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.missing == nil {
		t.missing, t.logged = make(map[subtree]*gap), make(map[int]gapKinds)
	}
	g := t.missing[key]
	if g == nil {
		g = &gap{clients: make(map[*clients.Client]struct{}), wait: firstCheck, next: time.Now().Add(firstCheck)}
		t.missing[key] = g
	}
	g.clients[c] = struct{}{}
	first = t.logged[key.domain]>>kind&1 == 0
	t.logged[key.domain] |= 1 << kind
	t.update()
	return first
}

// update sets what is read without mu. The caller holds mu.
func (t *subtrees) update() {
	t.n.Store(int32(len(t.missing) + len(t.logged)))
	var next int64
	for _, g := range t.missing {
		if n := g.next.UnixNano(); !g.next.IsZero() && len(g.clients) > 0 && (next == 0 || n < next) {
			next = n
		}
	}
	t.next.Store(next)
}

// answered notes that an agent has told the names of one of its dynamic roots, or
// that there are none. It has told them to c, unless c is nil.
func (t *subtrees) answered(c *clients.Client, key subtree) {
	if t.n.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.missing[key]; g != nil {
		delete(g.clients, c)
	}
	t.back(key)
	t.back(subtree{domain: key.domain})
	for k := range t.missing {
		if k.domain == key.domain {
			return // it fails for another
		}
	}
	delete(t.logged, key.domain)
	t.update()
}

// back tells the clients that miss a subtree that it is available again. The caller
// holds mu.
func (t *subtrees) back(key subtree) {
	g := t.missing[key]
	if g == nil {
		return
	}
	for c := range g.clients {
		c.Notices.Or(uint32(pdu.StateNamesChange))
	}
	delete(t.missing, key)
	t.update()
}

// forget notes that c has disconnected.
func (t *subtrees) forget(c *clients.Client) {
	if t.n.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range t.missing {
		delete(g.clients, c)
	}
	t.update()
}

// namesBack notes that the agent of a domain can be asked again, or is about to be.
func (t *subtrees) namesBack(domain int) {
	if t.n.Load() != 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.back(subtree{domain: domain})
	}
}

// due returns the subtrees to look at now.
func (t *subtrees) due(now time.Time) (due []subtree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, g := range t.missing {
		if !g.next.IsZero() && !now.Before(g.next) && len(g.clients) > 0 {
			g.next = time.Time{}
			due = append(due, key)
		}
	}
	t.update()
	return due
}

// again plans the next check of a subtree. One that has failed makes the time
// between two longer.
func (t *subtrees) again(key subtree, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.missing[key]
	if g == nil {
		return
	}
	if failed {
		g.wait = min(2*g.wait, lastCheck)
	}
	g.next = time.Now().Add(g.wait)
	t.update()
}
