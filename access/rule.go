package access

import (
	"fmt"
	"net/netip"
)

// A Family is a kind of connection. Rules of one family never match peers of
// another.
type Family uint8

const (
	_    Family = iota // unknown: everything is denied to such a peer
	Inet               // IPv4
	IPv6
	Unix // pmcd's Unix domain socket
)

// String returns the word for f in pmcd.conf.
func (f Family) String() string {
	switch f {
	case Inet:
		return "inet"
	case IPv6:
		return "ipv6"
	case Unix:
		return "unix"
	}
	return fmt.Sprintf("Family(%d)", uint8(f))
}

// A HostSpec is a set of addresses of one family: "host identifier" in
// pmcd(1).
type HostSpec struct {
	Family Family
	// Addr and Mask select the addresses a with a & Mask == Addr. Bits that are
	// not in Mask are zero in Addr. Both are invalid in the family Unix.
	//
	// A mask may have gaps: "fe80::1:*" compares neither the bits that "::"
	// stands for nor the last 16 bits.
	Addr, Mask netip.Addr
	// Level is larger for a less specific set; 0 is one address. Where rules
	// differ, the one with the smallest Level wins.
	Level int
}

// One returns the set that contains only the address a.
func One(a netip.Addr) HostSpec {
	a = a.WithZone("")
	if a.Is4() {
		return HostSpec{Inet, a, netip.AddrFrom4([4]byte{255, 255, 255, 255}), 0}
	}
	var m [16]byte
	for i := range m {
		m[i] = 0xff
	}
	return HostSpec{IPv6, a, netip.AddrFrom16(m), 0}
}

// contains reports whether a peer at a is in the set. Peers at the Unix domain
// socket have an invalid address.
func (h HostSpec) contains(a netip.Addr) bool {
	switch h.Family {
	case Unix:
		return !a.IsValid()
	case Inet:
		if !a.Is4() || !h.Addr.Is4() || !h.Mask.Is4() {
			return false
		}
	case IPv6:
		if !a.Is6() || !h.Addr.Is6() || !h.Mask.Is6() {
			return false
		}
	default:
		return false
	}
	x, want, mask := a.As16(), h.Addr.As16(), h.Mask.As16()
	start := 0
	if h.Family == Inet {
		start = 12
	}
	for i := start; i < len(x); i++ {
		if x[i]&mask[i] != want[i] {
			return false
		}
	}
	return true
}

// String returns the set as the "host-spec" of pmcd's log.
func (h HostSpec) String() string {
	if h.Family == Unix {
		return "/"
	}
	return h.Addr.String()
}

// A Kind is the kind of name in a rule: a host, a user or a group.
type Kind uint8

const (
	Host Kind = iota
	User
	Group
)

// String returns the word for k in pmcd.conf.
func (k Kind) String() string {
	switch k {
	case Host:
		return "host"
	case User:
		return "user"
	case Group:
		return "group"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Wildcard is the Name of a rule for all users, or all groups, that have no rule
// of their own.
const Wildcard = "*"

// A Rule is one name of one allow or disallow statement.
type Rule struct {
	Kind Kind
	Name string   // of the host, user or group, as it was written
	Host HostSpec // Kind Host
	ID   uint32   // uid of a User or gid of a Group, unless Name is Wildcard
	// Groups are the groups of a User, by id: a peer whose gid is one of them
	// matches the rule.
	Groups     []uint32
	GroupNames []string // of Groups, in the same order, for the log

	Specified Op  // the operations that the statement names
	Denied    Op  // those of them that it denies
	Max       int // most connections at a time; 0 is no limit
}

// A ClashError reports that a rule contradicts an earlier one. Index and With are
// the indexes of the two in the argument of New.
type ClashError struct {
	Index, With int
	Rule, First Rule
}

func (e *ClashError) Error() string {
	return fmt.Sprintf("permission clash for %v %s with earlier statement for %s", e.Rule.Kind, e.Rule.Name, e.First.Name)
}

// Clashes is the error of New: every rule that contradicts an earlier one, in
// order.
type Clashes []*ClashError

func (c Clashes) Error() string {
	if len(c) == 1 {
		return c[0].Error()
	}
	return fmt.Sprintf("%v (and %d more)", c[0], len(c)-1)
}
