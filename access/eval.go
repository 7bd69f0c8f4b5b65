package access

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Host returns the operations that the rules for hosts deny to p. If that is
// All, p may not connect.
func (l *List) Host(p Peer) Op {
	denied, _ := l.host(p)
	return denied
}

// A match holds the entries that match a peer.
type match struct {
	// checks are the entries with a limit that may refuse the peer: for each
	// address the most specific entry, and all entries for its account.
	checks []*entry
	// counts are the entries that count the connection.
	counts []*entry
}

func (m *match) check(e *entry) {
	if e.Max > 0 && !slices.Contains(m.checks, e) {
		m.checks = append(m.checks, e)
	}
}

func (m *match) count(e *entry) {
	if e.Max > 0 && !slices.Contains(m.counts, e) {
		m.counts = append(m.counts, e)
	}
}

// host evaluates the rules for hosts.
//
// C pmcd differs: it counts a connection of a loopback peer once for each time
// that the resolver repeats an address of this host's name.
func (l *List) host(p Peer) (denied Op, m match) {
	if l == nil {
		return 0, m
	}
	addrs, ok := l.addresses(p)
	if !ok {
		return All, m
	}
	for _, a := range addrs {
		var op Op
		var top *entry
		for i := len(l.hosts) - 1; i >= 0; i-- {
			e := l.hosts[i]
			if !e.Host.contains(a) {
				continue
			}
			op = op&^e.Specified | e.Denied
			top = e
			m.count(e)
		}
		if top != nil {
			m.check(top)
		}
		denied |= op
	}
	return denied, m
}

// addresses returns the addresses that p is evaluated with. It reports false for
// a peer with an invalid family or address.
func (l *List) addresses(p Peer) ([]netip.Addr, bool) {
	a := p.Addr.WithZone("")
	switch p.Family {
	case Unix:
		return []netip.Addr{{}}, true
	case Inet:
		if a = a.Unmap(); !a.Is4() {
			return nil, false
		}
	case IPv6:
		if !a.Is6() {
			return nil, false
		}
	default:
		return nil, false
	}
	// Exactly these two; 127.0.0.2 is an address like any other.
	if loopback := a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback(); loopback && len(l.env.Self) > 0 {
		return l.env.Self, true
	}
	return []netip.Addr{a}, true
}

// ErrDenied reports that all operations are denied to a peer.
var ErrDenied = errors.New("access denied")

// An AccountError reports that the groups of a peer's user cannot be looked up.
// Everything is denied to the peer.
type AccountError struct {
	UID uint32
	Err error
}

func (e *AccountError) Error() string { return fmt.Sprintf("groups of uid %d: %v", e.UID, e.Err) }
func (e *AccountError) Unwrap() error { return e.Err }

// An identity is a peer with the groups of its user.
type identity struct {
	Peer
	groups []uint32
	err    error
}

// identify looks up the groups of p if the rules need them.
func (l *List) identify(p Peer) identity {
	id := identity{Peer: p}
	if !l.needsGroups(p) {
		return id
	}
	groups, err := l.env.Accounts.Groups(p.UID)
	if err != nil {
		id.err = &AccountError{p.UID, err}
	}
	id.groups = groups
	return id
}

// needsGroups reports whether the rules depend on the groups of p.
func (l *List) needsGroups(p Peer) bool {
	return l != nil && p.HasUser && l.groups.inUse && l.env.Accounts != nil
}

// Account returns the operations that the rules for users and groups deny to p,
// in addition to those that Host returns. It may call the Resolver. An error is
// an *AccountError and comes with All.
func (l *List) Account(p Peer) (Op, error) {
	denied, _, err := l.account(l.identify(p))
	return denied, err
}

// account evaluates the rules for users and groups.
//
// C pmcd differs: it denies nothing to a peer without credentials and ignores the
// error of the Resolver.
func (l *List) account(id identity) (denied Op, m match, err error) {
	switch {
	case !l.CredsRequired():
		return 0, m, nil
	case !id.HasUser:
		return All, m, nil
	case id.err != nil:
		return All, m, id.err
	}
	denied = l.users.eval(&m, func(e *entry) bool {
		return id.UID == e.ID || slices.Contains(e.Groups, id.GID)
	})
	denied |= l.groups.eval(&m, func(e *entry) bool {
		return id.GID == e.ID || slices.Contains(id.groups, e.ID)
	})
	return denied, m, nil
}

// eval returns the operations that the matching entries deny, taken together. If
// no entry matches, it returns those that rest denies.
func (a *accounts) eval(m *match, matches func(*entry) bool) (denied Op) {
	if !a.inUse {
		return 0
	}
	found := false
	for _, e := range a.list {
		if matches(e) {
			found = true
			denied |= e.Denied
			m.check(e)
			m.count(e)
		}
	}
	if !found {
		denied = a.rest.Denied
		m.check(a.rest)
		m.count(a.rest)
	}
	return denied
}
