package access

import (
	"fmt"
	"net/netip"
	"slices"
	"sort"
)

// A Peer is the client at the other end of a connection.
type Peer struct {
	Family Family
	Addr   netip.Addr // Inet and IPv6

	HasUser  bool // UID and GID are known
	UID, GID uint32
}

// A Resolver answers questions about accounts. It may be slow.
type Resolver interface {
	// Groups returns the groups that an account is a member of, by id, its
	// primary one included.
	Groups(uid uint32) ([]uint32, error)
}

// An Env is what rules are evaluated against besides the peer.
type Env struct {
	// Self are the addresses of this host's own name. A peer at 127.0.0.1 or
	// ::1 is evaluated as if it had these addresses, so that rules for this
	// host can use its name. If Self is empty, the peer is evaluated with its
	// own address.
	Self []netip.Addr
	// Accounts looks up the groups of a peer, once for each connection, if
	// there are rules for groups. If it is nil, users have no groups besides
	// their GID.
	Accounts Resolver
	// CredsRequired denies everything to a peer without credentials, as rules
	// for users and groups do (pmcd -S).
	CredsRequired bool
}

// A List is the access rules in force. It is immutable. A nil List has no
// rules and allows everything.
type List struct {
	hosts  []*entry // by level, the most specific first
	users  accounts
	groups accounts
	env    Env
}

// An entry is the rules for one host specification, user or group, merged.
type entry struct {
	Rule
	from []int // indexes of the rules
}

// accounts are the entries for users or for groups.
type accounts struct {
	inUse bool
	list  []*entry
	rest  *entry // for all users or groups that are not in list; set if inUse
}

// each calls f for every entry in the order of pmcd's log: the newest first,
// rest last.
func (a *accounts) each(f func(*entry)) {
	for _, e := range slices.Backward(a.list) {
		f(e)
	}
	f(a.rest)
}

// New returns the List of rules. The order of rules only affects what an error
// and String report. An error is of type Clashes: the List is without the rules that
// it reports.
func New(rules []Rule, env Env) (*List, error) {
	type key struct {
		kind Kind
		// Not the mask: pmcd takes "fe80::0:*" and "fe80:0:0:*" for the same.
		family Family
		addr   netip.Addr
		level  int
		id     uint32
		rest   bool
	}
	l := &List{env: env}
	l.env.Self = slices.Clone(env.Self)
	first := make(map[key]*entry)
	var clashes Clashes
	for i := range rules {
		r := rules[i]
		r.Denied &= r.Specified
		k := key{kind: r.Kind}
		if r.Kind == Host {
			k.family, k.addr, k.level = r.Host.Family, r.Host.Addr, r.Host.Level
		} else if k.rest = r.Name == Wildcard; !k.rest {
			k.id = r.ID
		}
		if e := first[k]; e != nil {
			if e.Rule.contradicts(r) {
				with := e.clashing(rules, r)
				clashes = append(clashes, &ClashError{Index: i, With: with, Rule: r, First: rules[with]})
				continue
			}
			e.merge(r)
			e.from = append(e.from, i)
			continue
		}
		e := &entry{r, []int{i}}
		first[k] = e
		switch r.Kind {
		case Host:
			l.hosts = append(l.hosts, e)
		case User:
			l.users.add(e, k.rest)
		case Group:
			l.groups.add(e, k.rest)
		default:
			panic(fmt.Sprintf("access: rule %d is of %v", i, r.Kind))
		}
	}
	sort.SliceStable(l.hosts, func(i, j int) bool { return l.hosts[i].Host.Level < l.hosts[j].Host.Level })
	if len(clashes) > 0 {
		return l, clashes
	}
	return l, nil
}

// contradicts reports whether r and s contradict each other: both have a limit and the
// limits differ, or both name an operation and the operations that they deny are not the
// same.
//
// The latter rejects "all except store" after "fetch", although these agree. pmcd
// rejects it, too, and both accept the same files.
func (r Rule) contradicts(s Rule) bool {
	return r.Max != 0 && s.Max != 0 && r.Max != s.Max || r.Specified&s.Specified != 0 && r.Denied&r.Specified != s.Denied&s.Specified
}

// clashing returns the index of the rule of e that r contradicts. If r contradicts only
// several of them together, it is the first.
func (e *entry) clashing(rules []Rule, r Rule) int {
	for _, i := range e.from {
		if rules[i].contradicts(r) {
			return i
		}
	}
	return e.from[0]
}

// merge adds the operations and the limit of r to e.
func (e *entry) merge(r Rule) {
	e.Specified |= r.Specified
	e.Denied |= r.Denied
	e.Max = max(e.Max, r.Max)
}

// add adds an entry. The first one for users, whatever it allows, denies
// everything to all other users. The same goes for groups.
//
// C pmcd 6.0.3 differs: a "*" entry after others, or a second one, makes it read
// memory that it does not own.
func (a *accounts) add(e *entry, rest bool) {
	if rest {
		a.rest = e
	} else {
		a.list = append(a.list, e)
	}
	if a.rest == nil {
		a.rest = &entry{Rule{Kind: e.Kind, Name: Wildcard, Specified: All, Denied: All}, nil}
	}
	a.inUse = true
}

// CredsRequired reports whether a peer must send credentials before it may do
// anything: there is a rule for a user or a group, or Env requires it.
func (l *List) CredsRequired() bool {
	return l != nil && (l.env.CredsRequired || l.users.inUse || l.groups.inUse)
}
