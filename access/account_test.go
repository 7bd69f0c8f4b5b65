package access

import (
	"errors"
	"strings"
	"testing"
)

const pcp, nobody = 995, 65534 // uid and gid

// accounts of a host, by uid.
type memberships map[uint32][]uint32

func (m memberships) Groups(uid uint32) ([]uint32, error) {
	if g, ok := m[uid]; ok {
		return g, nil
	}
	return nil, errors.New("no such account")
}

var host = memberships{0: {0}, pcp: {pcp}, nobody: {nobody}, 1000: {100, pcp, 27}}

func user(name string, id uint32, spec, denied Op) Rule {
	return Rule{Kind: User, Name: name, ID: id, Groups: host[id], Specified: spec, Denied: denied}
}

func group(name string, id uint32, spec, denied Op) Rule {
	return Rule{Kind: Group, Name: name, ID: id, Specified: spec, Denied: denied}
}

func at(uid, gid uint32) Peer { return Peer{Family: Unix, HasUser: true, UID: uid, GID: gid} }

// The results of pmcd 6.0.3 for rules for users and groups, for the peers T (TCP) and
// R, P and N (at the Unix domain socket). pmcd 6.0.3 allows T everything, because its
// session continues after the error. Here T is denied.
func TestAccountVectors(t *testing.T) {
	peers := []Peer{{Family: Inet, Addr: addr("127.0.0.1")}, at(0, 0), at(pcp, pcp), at(nobody, nobody)}
	for _, tt := range []struct {
		n     int
		rules []Rule
		want  string
	}{
		{25, nil, "R fs fs fs"}, // with -S
		{26, []Rule{user("pcp", pcp, All, 0)}, "R R fs R"},
		{27, []Rule{user("pcp", pcp, Fetch, 0), user("pcp", pcp, Store, Store), user("root", 0, All, 0)}, "R fs f- R"},
		{28, []Rule{user("*", 0, Fetch, 0), user("pcp", pcp, All, All)}, "R fs R fs"},
		{29, []Rule{user("*", 0, Store, Store)}, "R f- f- f-"},
		{30, []Rule{user("nobody", nobody, All, All)}, "R R R R"},
		{31, []Rule{group("pcp", pcp, All, 0)}, "R R fs R"},
		{32, []Rule{user("root", 0, All, 0)}, "R fs R R"},
	} {
		l, err := New(tt.rules, Env{Accounts: host, CredsRequired: tt.n == 25})
		if err != nil {
			t.Errorf("row %d: %v", tt.n, err)
			continue
		}
		if !l.CredsRequired() {
			t.Errorf("row %d: no credentials required", tt.n)
		}
		for i, want := range strings.Fields(tt.want) {
			denied, err := l.Account(peers[i])
			if got := result(denied); got != want || err != nil {
				t.Errorf("row %d, peer %d: got %s, %v, want %s", tt.n, i, got, err, want)
			}
		}
	}
}

func TestAccountRules(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules []Rule
		peer  Peer
		want  Op
	}{
		{"no rules", nil, at(1, 1), 0},
		{"a rule for hosts does not ask for accounts", disallow(Store, v4), Peer{Family: Inet, Addr: addr("10.0.0.1")}, 0},
		{"* after a specific rule", []Rule{user("root", 0, All, 0), user("*", 0, Store, Store)}, at(1, 1), Store},
		{"* does not match a user with a rule", []Rule{user("root", 0, All, 0), user("*", 0, Store, Store)}, at(0, 0), 0},
		{"* matches uid 0", []Rule{user("*", 0, Store, Store)}, at(0, 0), Store},
		{"a gid among the groups of a user is the user", []Rule{{Kind: User, Name: "u", ID: 1000, Groups: host[1000], Specified: Store, Denied: Store}}, at(7, 27), Store},
		{"the uid among the members of a group", []Rule{group("pcp", pcp, Store, Store)}, at(1000, 1000), Store},
		{"all matching rules deny together", []Rule{group("g", 27, Store, Store), group("h", 100, Fetch, Fetch)}, at(1000, 1000), All},
		{"users and groups both apply", []Rule{user("u", 1000, All, 0), group("h", 100, Store, Store)}, at(1000, 1000), Store},
		{"a rule for users is nothing to groups", []Rule{user("root", 0, All, 0), group("*", 0, Store, Store)}, at(0, 0), Store},
	} {
		l, err := New(tt.rules, Env{Accounts: host})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got, err := l.Account(tt.peer); got != tt.want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}

	// Everything is denied to a peer with unknown groups.
	l, err := New([]Rule{group("root", 0, Store, Store)}, Env{Accounts: host})
	if err != nil {
		t.Fatal(err)
	}
	var ae *AccountError
	if got, err := l.Account(at(42, 42)); got != All || !errors.As(err, &ae) || ae.UID != 42 {
		t.Errorf("unknown account: got %q, %v", got, err)
	}
	// Without a Resolver ids are still compared.
	if l, err = New([]Rule{group("pcp", pcp, All, 0)}, Env{}); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Account(at(1, pcp)); got != 0 || err != nil {
		t.Errorf("gid without resolver: got %q, %v", got, err)
	}
	if got, err := l.Account(at(1000, 1)); got != All || err != nil {
		t.Errorf("member without resolver: got %q, %v", got, err)
	}
}
