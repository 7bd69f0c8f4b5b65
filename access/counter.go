package access

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrConnLimit is in the error for a peer that is refused because as many connections as a rule
// allows already count for it (PM_ERR_CONNLIMIT).
var ErrConnLimit = errors.New("connection limit reached")

// A Counter applies a List to connections. It decides about a connection when the
// client connects (Admit), when its credentials are known (Login), and when the
// List is replaced (Recount). It counts connections for the limits in the rules.
// Its methods and those of its Conns are safe for concurrent use, but calls of Recount
// must not overlap.
type Counter struct {
	mu     sync.Mutex // guards the following and the fields of the Conns
	list   *List
	counts map[*entry]int // of the entries of list that have a limit
	conns  map[*Conn]bool // admitted and not released
	// ids has what Recount and the Logins beside it have looked up. It is nil if there is
	// no Recount.
	ids map[*Conn]identity
}

// NewCounter returns a Counter without connections that applies l.
func NewCounter(l *List) *Counter {
	return &Counter{list: l, counts: make(map[*entry]int), conns: make(map[*Conn]bool)}
}

// A Conn is one connection of a Counter. Everything is denied to it before Admit
// and after Release, and to the zero Conn. A Conn must not be copied.
type Conn struct {
	allowed atomic.Uint32 // an Op

	// The following are set by Admit.
	counter *Counter
	num     int

	peer      Peer
	known     bool     // Login was called
	gone      bool     // released or refused: nothing is allowed any more
	asHost    []*entry // entries that count it for its address
	asAccount []*entry // entries that count it for its user and groups
}

// List returns the rules in force.
func (c *Counter) List() *List {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list
}

// Admit decides by the rules for hosts whether p may connect as k, a zero Conn.
// The error is ErrDenied, or has ErrConnLimit. Num is the number of the client: if a
// reload lowers a limit, the connections with the lowest numbers stay.
//
// If credentials are required, everything is denied to the connection until
// Login is called.
func (c *Counter) Admit(k *Conn, num int, p Peer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.counter, k.num, k.peer = c, num, p
	denied, err := c.admit(k)
	if err != nil {
		k.gone = true
		return err
	}
	k.deny(denied)
	c.conns[k] = true
	return nil
}

// Login decides by the rules for users and groups what the connection may do.
// Call it when the client has sent its credentials, or has sent a CREDS PDU
// without them, whatever the rules are. The error is ErrDenied, has ErrConnLimit or is
// an *AccountError; then everything is denied to the connection, but it is not
// released.
//
// Login may take as long as the Resolver does. If it is called again, the new
// credentials replace those before.
func (k *Conn) Login(p Peer) error {
	c := k.counter
	for {
		l := c.List()
		id := l.identify(p)
		c.mu.Lock()
		if l == c.list {
			defer c.mu.Unlock()
			if c.ids != nil {
				c.ids[k] = id
			}
			denied, err := c.login(k, id)
			k.deny(denied)
			return err
		}
		// The rules were replaced meanwhile, and the new ones may need groups
		// where the old ones did not.
		c.mu.Unlock()
	}
}

// TryLogin is Login if that does not call the Resolver. Otherwise it reports false and does
// nothing.
func (k *Conn) TryLogin(p Peer) (done bool, err error) {
	c := k.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list.needsGroups(p) {
		return false, nil
	}
	denied, err := c.login(k, identity{Peer: p})
	k.deny(denied)
	return true, err
}

// Denied returns the operations that are denied to the connection.
func (k *Conn) Denied() Op { return All &^ Op(k.allowed.Load()) }

func (k *Conn) deny(op Op) { k.allowed.Store(uint32(All &^ op)) }

// Num returns the number given to Admit.
func (k *Conn) Num() int { return k.num }

// Release ends the connection. It may be called more than once, and also after
// Admit has refused the connection.
func (k *Conn) Release() {
	c := k.counter
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(k)
}

// A Refusal is a connection that the new rules refuse.
type Refusal struct {
	Conn *Conn
	Err  error // as of Admit and Login
}

// Recount puts l in force, for new connections at once. It decides again about all others,
// in the order of their numbers and with counts from zero. Everything is denied to those
// that it refuses, and they no longer count. The caller closes them.
//
// If the rules need the groups of users, Recount looks them up, once for each user that is
// connected when it begins. It takes as long as the Resolver does, however many connect
// meanwhile. Until it is done, a connection may do what both the old rules and the new ones
// for hosts allow. Then Recount decides about those that have connected meanwhile, too: they
// have the higher numbers.
func (c *Counter) Recount(l *List) []Refusal {
	c.mu.Lock()
	c.list, c.ids = l, make(map[*Conn]identity)
	refused := c.recount()
	unknown := c.unknown()
	c.mu.Unlock()

	users := make(map[uint32]identity)
	for _, p := range unknown {
		if _, ok := users[p.UID]; !ok {
			users[p.UID] = l.identify(p) // outside of the lock, because it may be slow
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for k, p := range unknown {
		if _, ok := c.ids[k]; !ok { // it has not logged in again
			id := users[p.UID]
			id.Peer = p
			c.ids[k] = id
		}
	}
	if len(unknown) > 0 {
		refused = append(refused, c.recount()...)
	}
	c.ids = nil
	return refused
}

// unknown returns the peers that Login was called for and whose groups are needed and not
// known. c.mu is held, here and below.
func (c *Counter) unknown() map[*Conn]Peer {
	m := make(map[*Conn]Peer)
	for k := range c.conns {
		if _, ok := c.identity(k); k.known && !ok {
			m[k] = k.peer
		}
	}
	return m
}

// identity returns the identity of k, if it is known or needs no Resolver.
func (c *Counter) identity(k *Conn) (identity, bool) {
	if !c.list.needsGroups(k.peer) {
		return identity{Peer: k.peer}, true
	}
	id, ok := c.ids[k]
	return id, ok
}

// recount counts all connections from zero and returns those that it refuses. It leaves
// out the rules for accounts if the identity of a connection is not known.
func (c *Counter) recount() (refused []Refusal) {
	clear(c.counts)
	order := slices.SortedFunc(maps.Keys(c.conns), func(a, b *Conn) int { return a.num - b.num })
	for _, k := range order {
		k.asHost, k.asAccount = nil, nil
	}
	for _, k := range order {
		denied, err := c.admit(k)
		if err == nil && k.known {
			if id, ok := c.identity(k); ok {
				denied, err = c.login(k, id)
			} else {
				denied = c.list.Host(k.peer) | k.Denied()
			}
		}
		if err != nil {
			c.remove(k)
			refused = append(refused, Refusal{k, err})
			continue
		}
		// Once and at the end: its session may read it at any time.
		k.deny(denied)
	}
	return refused
}

// admit applies the rules for hosts to k, which is not counted. It returns
// the operations that are denied before Login.
func (c *Counter) admit(k *Conn) (Op, error) {
	denied, m := c.list.host(k.peer)
	if denied == All {
		return All, ErrDenied
	}
	if err := c.enter(m); err != nil {
		return All, err
	}
	k.asHost = m.counts
	if c.list.CredsRequired() {
		denied = All
	}
	return denied, nil
}

// login applies the rules for users and groups to k, which was admitted. It does
// not check the limits for hosts again: an admitted peer stays even if peers with
// more specific rules have passed its limit since.
func (c *Counter) login(k *Conn, id identity) (Op, error) {
	if k.gone {
		return All, ErrDenied
	}
	k.peer.HasUser, k.peer.UID, k.peer.GID = id.HasUser, id.UID, id.GID
	k.known = true
	c.leave(k.asAccount)
	k.asAccount = nil
	denied, m, err := c.list.account(id)
	if err != nil {
		return All, err
	}
	denied |= c.list.Host(k.peer)
	if denied == All {
		return All, ErrDenied
	}
	if err := c.enter(m); err != nil {
		return All, err
	}
	k.asAccount = m.counts
	return denied, nil
}

// remove takes k out of the counts, for good.
func (c *Counter) remove(k *Conn) {
	c.leave(k.asHost)
	c.leave(k.asAccount)
	k.asHost, k.asAccount = nil, nil
	k.gone = true
	k.deny(All)
	delete(c.conns, k)
}

// enter counts a connection for the entries of m. If one of them is full, it
// counts it for none.
func (c *Counter) enter(m match) error {
	for _, e := range m.checks {
		if c.counts[e] >= e.Max {
			return fmt.Errorf("%v %s: %w (%d)", e.Kind, e.Name, ErrConnLimit, e.Max)
		}
	}
	for _, e := range m.counts {
		c.counts[e]++
	}
	return nil
}

func (c *Counter) leave(counted []*entry) {
	for _, e := range counted {
		if c.counts[e]--; c.counts[e] == 0 {
			delete(c.counts, e)
		}
	}
}

// String describes the rules and the connections counted, as pmcd's log does.
func (c *Counter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list.table(func(e *entry) int { return c.counts[e] })
}
