package names

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// Missing has the dynamic parts of the name space that clients asked for and did
// not get. A client is notified with its next fetch (StateNamesChange) when one
// of its missing subtrees is available again.
//
// An agent that was not asked, because it is down, fenced, late or not ready,
// loses all its subtrees at once, and they come back with it: clients are notified
// when it is started, unfenced or ready again. An agent that was asked for one
// subtree and failed is asked again by pmcd, at growing intervals, while clients
// that miss the subtree are connected: a client that was notified too early would ask,
// make the agent fail, and be notified again.
type Missing struct {
	Routes  func() *routes.Table
	Timeout func() time.Duration // for an agent to answer a probe
	probes  sync.WaitGroup

	n    atomic.Int32              // of missing and logged, to be read without mu
	next atomic.Pointer[time.Time] // when the first check is due; nil is never

	mu      sync.Mutex // guards the following, which sessions, probes and the supervision of agents use
	missing map[subtree]*missing
	logged  map[int]reasons // failures in the log, by domain, since the agent has answered
}

// A subtree is a dynamic root and what is below it, or all of an agent's if root
// is "".
type subtree struct {
	domain int
	root   string
}

// A missing is a subtree that is missing. It remains when its clients have disconnected,
// until the agent answers.
type missing struct {
	clients map[*clients.Client]struct{}
	wait    time.Duration // between checks
	next    time.Time     // when a check is due; zero while one is on its way
}

// A reason is why a subtree is missing.
type reason uint8

const (
	noAgent reason = iota
	down
	fenced
	notReady
	late
	failed
)

// reasons is a set of them.
type reasons uint8

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
func (m *Missing) miss(c *clients.Client, key subtree, why reason) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missing == nil {
		m.missing, m.logged = make(map[subtree]*missing), make(map[int]reasons)
	}
	g := m.missing[key]
	if g == nil {
		g = &missing{clients: make(map[*clients.Client]struct{}), wait: firstCheck, next: time.Now().Add(firstCheck)}
		m.missing[key] = g
	}
	g.clients[c] = struct{}{}
	first = m.logged[key.domain]>>why&1 == 0
	m.logged[key.domain] |= 1 << why
	m.update()
	return first
}

// update sets what is read without mu. The caller holds mu.
func (m *Missing) update() {
	m.n.Store(int32(len(m.missing) + len(m.logged)))
	var next time.Time
	for _, g := range m.missing {
		if !g.next.IsZero() && len(g.clients) > 0 && (next.IsZero() || g.next.Before(next)) {
			next = g.next
		}
	}
	if next.IsZero() {
		m.next.Store(nil)
		return
	}
	m.next.Store(&next)
}

// answered notes that an agent has given the names of one of its dynamic roots, or
// that there are none. It has given them to c, unless c is nil.
func (m *Missing) answered(c *clients.Client, key subtree) {
	if m.n.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if g := m.missing[key]; g != nil {
		delete(g.clients, c)
	}
	m.back(key)
	m.back(subtree{domain: key.domain})
	for k := range m.missing {
		if k.domain == key.domain {
			return // it fails for another
		}
	}
	delete(m.logged, key.domain)
	m.update()
}

// back notifies the clients that miss a subtree that it is available again. The caller
// holds mu.
func (m *Missing) back(key subtree) {
	g := m.missing[key]
	if g == nil {
		return
	}
	for c := range g.clients {
		c.Notices.Or(uint32(pdu.StateNamesChange))
	}
	delete(m.missing, key)
	m.update()
}

// Forget notes that c has disconnected.
func (m *Missing) Forget(c *clients.Client) {
	if m.n.Load() == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.missing {
		delete(g.clients, c)
	}
	m.update()
}

// Back notes that the agent of a domain can be asked again, or is about to be.
func (m *Missing) Back(domain int) {
	if m.n.Load() != 0 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.back(subtree{domain: domain})
	}
}

// due returns the subtrees to look at now.
func (m *Missing) due(now time.Time) (due []subtree) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, g := range m.missing {
		if !g.next.IsZero() && !now.Before(g.next) && len(g.clients) > 0 {
			g.next = time.Time{}
			due = append(due, key)
		}
	}
	m.update()
	return due
}

// again plans the next check of a subtree. One that has failed makes the time
// between two longer.
func (m *Missing) again(key subtree, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.missing[key]
	if g == nil {
		return
	}
	if failed {
		g.wait = min(2*g.wait, lastCheck)
	}
	g.next = time.Now().Add(g.wait)
	m.update()
}

// answers reports whether requests go to the agent of a domain.
func (m *Missing) answers(domain int) bool {
	a := m.Routes().Agent(domain)
	return a != nil && a.TakesRequests()
}

// Check looks for subtrees that are back, if that is due. Each fetch calls it.
func (m *Missing) Check(now time.Time) {
	if next := m.next.Load(); next == nil || now.Before(*next) {
		return
	}
	for _, key := range m.due(now) {
		switch up := m.answers(key.domain); {
		case !up:
			m.again(key, false)
		case key.root == "": // the client has asked between Back and the first answer
			m.Back(key.domain)
		default:
			m.probes.Go(func() { m.probe(key) })
		}
	}
}

// probe asks for a subtree on behalf of no client. If there is an answer, the clients
// that miss the subtree are notified.
func (m *Missing) probe(key subtree) {
	r := m.Routes()
	e, a := r.Tree().Find(key.root), r.Agent(key.domain)
	switch {
	case e.Kind != pmnsload.Dynamic, e.Name != key.root, e.Domain != key.domain:
		m.mu.Lock() // the name space is another one
		defer m.mu.Unlock()
		m.back(key)
	case a == nil || failedNames(m.askNames(a, key.root)):
		m.again(key, true)
	default:
		m.answered(nil, key)
	}
}

// askNames asks an agent for the names of a dynamic root and returns why there is
// no answer.
func (m *Missing) askNames(a *agentset.Agent, root string) error {
	c := a.Conn()
	if c == nil || !c.Acquire() {
		return pdu.ErrnoNoAgent
	}
	defer c.Release()
	b, err := transport.Probe(c, transport.Call{Timeout: m.Timeout()}, &pdu.PMNSTraverse{Name: root})
	if err != nil {
		return c.TransportError(err)
	}
	_, reply, err := pdu.Parse(b)
	if err != nil {
		return c.ProtocolError(err)
	}
	switch reply := reply.(type) {
	case *pdu.PMNSNames:
		if reply.Err != 0 {
			return reply.Err
		}
		return nil
	case *pdu.Error:
		if reply.Code < 0 {
			return reply.Code
		}
	}
	return pdu.ErrnoGeneric
}

// Wait waits for the end of probes. It is called when agents are being stopped: the probes
// end with them.
func (m *Missing) Wait() { m.probes.Wait() }
