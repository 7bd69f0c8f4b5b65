// Package quota limits what clients may hold together, such as memory for replies that they do
// not read.
//
// A [Limit] is for all clients. Above it a client is not made to wait: one is evicted, by the same
// rule for all Limits. Of the groups (users and hosts) it is the one that holds the most, of that
// group the member (process) that holds the most, and of that member the client that holds the
// most. If that is the client that asks for more, the request is refused. Otherwise that client is
// disconnected. So no group can keep others out, and no process the others of its user.
package quota

import (
	"fmt"
	"sync"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// A Limit is how much all clients may hold of one kind. The exported fields must not change while
// it is used.
type Limit struct {
	Name string // what clients hold, as in the section LIMITS of pmcd(1)
	Unit string // "bytes", or "" for a number
	All  int64  // for all clients

	mu       sync.Mutex // guards the following, and the fields of holders; locked before those of a client's connection
	all      holder
	groups   map[fairqueue.Group]*holder
	members  map[fairqueue.Key]*holder
	evicted  int64     // clients that were disconnected
	last     string    // the address of the last of these
	lastTime time.Time // when that was
}

// A holder is an Account, or what holds for all of them: a member, a group, or all clients. It is
// a part of its parent while it holds anything.
type holder struct {
	held    int64
	parent  *holder
	parts   map[*holder]struct{}
	account *Account // nil if it is none
}

// A Client is the owner of Accounts. Its fields must not change.
type Client struct {
	Key     fairqueue.Key
	Address string
	// Evict disconnects the client because of the error, and does not wait.
	Evict func(err error)
}

// An Account is what one client holds of a Limit. Any goroutine may use it.
type Account struct {
	limit  *Limit
	client *Client
	holder holder
	closed bool
}

// Open returns the Account of c, which holds nothing.
func (l *Limit) Open(c *Client) *Account {
	a := &Account{limit: l, client: c}
	a.holder.account = a
	return a
}

// An Error says why a client may not hold more, or is evicted.
type Error struct {
	Limit  *Limit
	Client int64 // what the client would hold
	Group  int64 // what its group would hold
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: it has %d", e.Limit.Name, e.Client)
	if e.Limit.Unit != "" {
		text += " " + e.Limit.Unit
	}
	return fmt.Sprintf("%s, its user or host has %d, and all clients may have %d", text, e.Group, e.Limit.All)
}

// Hold adds n to what a holds. If that exceeds the limit, others are evicted. If a itself would be,
// Hold adds nothing and returns an *Error. After a was evicted or closed, Hold does nothing.
func (a *Account) Hold(n int64) error {
	l := a.limit
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.closed {
		return nil
	}
	l.add(a, n)
	for l.all.held > l.All {
		b := l.most(a)
		err := &Error{Limit: l, Client: b.holder.held, Group: b.holder.parent.parent.held}
		if b == a {
			l.add(a, -n)
			return err
		}
		l.close(b)
		b.client.Evict(err)
	}
	return nil
}

// Drop subtracts n from what a holds.
func (a *Account) Drop(n int64) {
	a.limit.mu.Lock()
	defer a.limit.mu.Unlock()
	a.limit.add(a, -n)
}

// Close has a hold nothing from now on.
func (a *Account) Close() {
	a.limit.mu.Lock()
	defer a.limit.mu.Unlock()
	a.limit.close(a)
}

// close has a hold nothing from now on. The caller holds mu.
func (l *Limit) close(a *Account) {
	l.add(a, -a.holder.held)
	a.closed = true
}

// Disconnected counts a client that is disconnected because of an [Error] of l.
func (l *Limit) Disconnected(c *Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evicted++
	l.last, l.lastTime = c.Address, time.Now()
}

// most returns the Account to evict for asks, which may be asks itself. If several hold the
// most, it is asks where that is one of them. The caller holds mu.
func (l *Limit) most(asks *Account) *Account {
	member := asks.holder.parent
	return l.all.most(member.parent).most(member).most(&asks.holder).account
}

// most returns the part that holds the most. If several do, it is preferred where that is one
// of them.
func (h *holder) most(preferred *holder) *holder {
	var most *holder
	if _, ok := h.parts[preferred]; ok {
		most = preferred
	}
	for part := range h.parts {
		if most == nil || part.held > most.held {
			most = part
		}
	}
	return most
}

// add adds n, which may be negative, to what a and its parents hold. The caller holds mu.
func (l *Limit) add(a *Account, n int64) {
	if n == 0 || a.closed {
		return
	}
	if a.holder.held == 0 {
		l.attach(a)
	}
	for h := &a.holder; h != nil; h = h.parent {
		h.held += n
	}
	if a.holder.held == 0 {
		l.detach(a)
	}
}

// attach makes a part of its member, and that of its group. The caller holds mu.
func (l *Limit) attach(a *Account) {
	m := l.members[a.client.Key]
	if m == nil {
		g := l.groups[a.client.Key.Group]
		if g == nil {
			g = new(holder)
			put(&l.groups, a.client.Key.Group, g)
			g.attach(&l.all)
		}
		m = new(holder)
		put(&l.members, a.client.Key, m)
		m.attach(g)
	}
	a.holder.attach(m)
}

// detach undoes attach. The caller holds mu.
func (l *Limit) detach(a *Account) {
	m := a.holder.parent
	g := m.parent
	delete(m.parts, &a.holder)
	if len(m.parts) == 0 {
		delete(l.members, a.client.Key)
		delete(g.parts, m)
	}
	if len(g.parts) == 0 {
		delete(l.groups, a.client.Key.Group)
		delete(l.all.parts, g)
	}
	a.holder.parent = nil
}

func (h *holder) attach(parent *holder) {
	h.parent = parent
	put(&parent.parts, h, struct{}{})
}

func put[K comparable, V any](m *map[K]V, key K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[key] = v
}

// A Status is the use of a Limit.
type Status struct {
	Name         string // as in the section LIMITS of pmcd(1)
	Unit         string // "bytes", or "" for a number
	Used         int64
	Limit        int64  // 0 means no limit
	Disconnected int64  // clients, because of the limit
	Last         string // address of the last of these
	LastAt       time.Time
}

// Status returns the use of l.
func (l *Limit) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Status{Name: l.Name, Unit: l.Unit, Used: l.all.held, Limit: l.All, Disconnected: l.evicted, Last: l.last, LastAt: l.lastTime}
}
