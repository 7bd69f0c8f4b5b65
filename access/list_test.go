package access

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Host identifiers as data. Package pmcdconf parses them.
var (
	v4   = HostSpec{Inet, addr("0.0.0.0"), addr("0.0.0.0"), 4}
	v6   = HostSpec{IPv6, addr("::"), addr("::"), 8}
	unix = HostSpec{Family: Unix, Level: 1}
	star = []HostSpec{v4, v6, unix}
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func one(s string) HostSpec { return One(addr(s)) }

// prefix returns the wildcard of a prefix of whole numbers: "127.0.0.0/8" is
// 127.*.
func prefix(s string) HostSpec {
	p := netip.MustParsePrefix(s)
	n := p.Addr().BitLen()
	h := HostSpec{Family: Inet, Addr: p.Addr(), Level: 4 - p.Bits()/8}
	if n == 128 {
		h = HostSpec{Family: IPv6, Addr: p.Addr(), Level: 8 - p.Bits()/16}
	}
	mask := make([]byte, n/8)
	for i := range p.Bits() / 8 {
		mask[i] = 0xff
	}
	h.Mask, _ = netip.AddrFromSlice(mask)
	return h
}

func rule(spec, denied Op, hosts ...HostSpec) (rules []Rule) {
	for _, h := range hosts {
		rules = append(rules, Rule{Kind: Host, Name: h.String(), Host: h, Specified: spec, Denied: denied})
	}
	return rules
}

func allow(ops Op, hosts ...HostSpec) []Rule    { return rule(ops, 0, hosts...) }
func disallow(ops Op, hosts ...HostSpec) []Rule { return rule(ops, ops, hosts...) }

// except is "allow hosts : all except ops".
func except(ops Op, hosts ...HostSpec) []Rule { return rule(All, ops, hosts...) }

func limit(n int, rules []Rule) []Rule {
	for i := range rules {
		rules[i].Max = n
	}
	return rules
}

func cat(lists ...[]Rule) (rules []Rule) {
	for _, l := range lists {
		rules = append(rules, l...)
	}
	return rules
}

// The peers of the vectors, measured on a host whose name was 127.0.0.1.
var (
	self  = []netip.Addr{addr("127.0.0.1")}
	peers = []struct {
		column string
		Peer
	}{
		{"A", Peer{Family: Inet, Addr: addr("127.0.0.1")}},
		{"B", Peer{Family: Inet, Addr: addr("127.0.0.2")}},
		{"C", Peer{Family: Inet, Addr: addr("192.0.2.2")}},
		{"D", Peer{Family: IPv6, Addr: addr("::1")}},
		{"E", Peer{Family: IPv6, Addr: addr("fd00::2")}},
		{"U", Peer{Family: Unix}},
	}
)

// result describes what a client may do: "f" fetch, "s" store, "R" not even connect.
func result(denied Op) string {
	switch denied {
	case 0:
		return "fs"
	case Store:
		return "f-"
	case Fetch:
		return "-s"
	}
	return "R"
}

// The results of pmcd 6.0.3 for host rules and the peers A to U.
func TestHostVectors(t *testing.T) {
	gap := HostSpec{IPv6, addr("fd00::"), addr("ffff::"), 6} // "fd00::*"
	for _, tt := range []struct {
		n     int
		rules []Rule
		want  string
	}{
		{1, nil, "fs fs fs fs fs fs"},
		{2, cat(disallow(Store, v4, v6), allow(All, unix, one("127.0.0.1"))), "fs f- f- fs f- fs"},
		{3, disallow(All, star...), "R R R R R R"},
		{4, disallow(Store, star...), "f- f- f- f- f- f-"},
		{5, cat(allow(All, one("127.0.0.1")), disallow(All, v4, v6)), "fs R R fs R fs"},
		{6, cat(allow(All, unix), disallow(All, v4, v6)), "R R R R R fs"},
		{7, disallow(All, one("127.0.0.1")), "R fs fs R fs fs"},
		{8, disallow(All, one("127.0.0.2")), "fs R fs fs fs fs"},
		{9, disallow(All, prefix("127.0.0.0/8")), "R R fs R fs fs"},
		{10, disallow(All, one("::1")), "fs fs fs fs fs fs"},
		{11, disallow(All, One(self[0])), "R fs fs R fs fs"},
		{12, cat(disallow(Store, prefix("192.0.2.0/24")), allow(All, one("192.0.2.2"))), "fs fs fs fs fs fs"},
		{13, cat(allow(All, prefix("192.0.2.0/24")), disallow(All, prefix("192.0.0.0/8"))), "fs fs fs fs fs fs"},
		{14, except(Store, prefix("192.0.0.0/8")), "fs fs f- fs fs fs"},
		{15, rule(All, Store, one("192.0.2.2")), "fs fs f- fs fs fs"},
		{16, cat(allow(Fetch, one("192.0.2.2")), disallow(All, star...)), "R R f- R R R"},
		{16, cat(disallow(All, star...), allow(Fetch, one("192.0.2.2"))), "R R f- R R R"},
		{17, cat(allow(Fetch, one("192.0.2.2")), disallow(Store, one("192.0.2.2"))), "fs fs f- fs fs fs"},
		{18, cat(disallow(All, v6), allow(Fetch, one("fd00::2"))), "fs fs fs fs f- fs"},
		{19, disallow(All, gap), "fs fs fs fs R fs"},
		{19, disallow(All, prefix("fd00::/16")), "fs fs fs fs R fs"},
		{20, disallow(Store, unix), "fs fs fs fs fs f-"},
		{21, except(Store, star...), "f- f- f- f- f- f-"},
		{22, disallow(Store, one("192.0.2.2")), "fs fs f- fs fs fs"},
		{23, cat(allow(Fetch, one("192.0.2.2")), disallow(Store, one("192.0.2.2"))), "fs fs f- fs fs fs"},
		{24, disallow(Store, one("192.0.2.2")), "fs fs f- fs fs fs"},
	} {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) {
			l, err := New(tt.rules, Env{Self: self})
			if err != nil {
				t.Error(err)
				return
			}
			for i, want := range strings.Fields(tt.want) {
				if got := result(l.Host(peers[i].Peer)); got != want {
					t.Errorf("peer %s: got %s, want %s\n%v", peers[i].column, got, want, l)
				}
			}
		})
	}
}

func TestHostRules(t *testing.T) {
	loop4, loop6 := Peer{Family: Inet, Addr: addr("127.0.0.1")}, Peer{Family: IPv6, Addr: addr("::1")}
	gap := HostSpec{IPv6, addr("fe80::1:0"), addr("ffff::ffff:0"), 5} // "fe80::1:*"
	in6 := func(s string) Peer { return Peer{Family: IPv6, Addr: addr(s)} }
	for _, tt := range []struct {
		name  string
		rules []Rule
		self  []netip.Addr
		peer  Peer
		want  Op
	}{
		{"a gap is not compared", disallow(All, gap), nil, in6("fe80:0:7::1:5"), All},
		{"what is behind a gap is", disallow(All, gap), nil, in6("fe80::2:5"), 0},
		{"a gap counts one level", cat(disallow(All, gap), allow(Fetch, prefix("fe80::/48"))), nil, in6("fe80::1:5"), All},
		{"the more specific rule wins whatever the order", cat(allow(Fetch, prefix("fe80::/64")), disallow(All, gap)), nil, in6("fe80::1:5"), Store},
		{"a rule speaks of its operations only", cat(disallow(Store, v4), disallow(Fetch, prefix("10.0.0.0/8"))), nil, Peer{Family: Inet, Addr: addr("10.1.1.1")}, All},
		{"an IPv4 address in IPv6 form is IPv4", disallow(Store, v4), nil, Peer{Family: Inet, Addr: addr("::ffff:10.1.1.1")}, Store},
		{"a zone does not matter", disallow(Store, one("fe80::1")), nil, in6("fe80::1%lo"), Store},
		{"families do not mix", cat(disallow(All, v4), disallow(All, unix)), nil, in6("::2"), 0},
		{"loopback is this host's name, of any family", disallow(Store, one("fd00::5")), []netip.Addr{addr("10.0.0.5"), addr("fd00::5")}, loop4, Store},
		{"loopback is denied what any address of the name is", cat(disallow(Store, one("10.0.0.5")), allow(All, one("fd00::5"))), []netip.Addr{addr("10.0.0.5"), addr("fd00::5")}, loop6, Store},
		{"loopback is not itself", disallow(All, loopSpec(loop4)...), []netip.Addr{addr("10.0.0.5")}, loop4, 0},
		{"all of IPv6 is not ::1 if the name has no such address", disallow(All, v6), []netip.Addr{addr("10.0.0.5")}, loop6, 0},
		{"127.0.0.2 is itself", disallow(All, one("127.0.0.2")), []netip.Addr{addr("10.0.0.5")}, Peer{Family: Inet, Addr: addr("127.0.0.2")}, All},
		{"without a name loopback is itself", disallow(All, loopSpec(loop4)...), nil, loop4, All},
		{"a peer of no family may do nothing", nil, nil, Peer{}, All},
		{"a peer of the wrong family may do nothing", nil, nil, Peer{Family: Inet, Addr: addr("::1")}, All},
		{"a peer without address may do nothing", disallow(Store, unix), nil, Peer{Family: Inet}, All},
		{"a limit alone says nothing of operations", limit(3, rule(0, 0, star...)), nil, Peer{Family: Unix}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := New(tt.rules, Env{Self: tt.self})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Host(tt.peer); got != tt.want {
				t.Errorf("got %q denied, want %q", got, tt.want)
			}
		})
	}
	if got := (*List)(nil).Host(Peer{Family: Unix}); got != 0 {
		t.Errorf("no list denies %q", got)
	}
}

func loopSpec(p Peer) []HostSpec { return []HostSpec{One(p.Addr)} }

func TestClashes(t *testing.T) {
	h := one("192.0.2.2")
	user := func(name string, id uint32, spec, denied Op) []Rule {
		return []Rule{{Kind: User, Name: name, ID: id, Specified: spec, Denied: denied}}
	}
	for _, tt := range []struct {
		name  string
		rules []Rule
		want  string // indexes, "rule with rule"
	}{
		{"fetch and store allowed, then only store left out", cat(allow(All, h), rule(All, Store, h)), "[1 with 0]"},
		{"all hosts refused, then IPv4 allowed", cat(disallow(All, star...), allow(Fetch, v4)), "[3 with 0]"},
		{"agreement in other words is a clash too", cat(except(Store, h), allow(Fetch, h)), "[1 with 0]"},
		{"different operations", cat(allow(Fetch, h), disallow(Store, h)), ""},
		{"what was merged, repeated", cat(allow(Fetch, h), disallow(Store, h), except(Store, h)), ""},
		{"what was merged, in part", cat(allow(Fetch, h), disallow(Store, h), allow(Fetch, h)), "[2 with 0]"},
		{"the same twice", cat(disallow(Store, h), disallow(Store, h)), ""},
		{"another level", cat(allow(All, h), disallow(All, prefix("192.0.2.0/24"))), ""},
		{"the same address and level under another mask", cat(allow(Fetch, HostSpec{IPv6, addr("fe80::"), addr("ffff::"), 6}), disallow(Fetch, prefix("fe80::/32"))), "[1 with 0]"},
		{"different limits", cat(limit(3, allow(All, h)), limit(4, allow(All, h))), "[1 with 0]"},
		{"one limit", cat(allow(All, h), limit(4, allow(All, h)), allow(All, h)), ""},
		{"one limit, then another", cat(allow(All, h), limit(4, allow(All, h)), limit(5, allow(All, h))), "[2 with 1]"},
		{"an operation, another, then the first again", cat(disallow(Fetch, h), disallow(Store, h), allow(Store, h)), "[2 with 1]"},
		{"a user", cat(user("root", 0, All, 0), user("root", 0, Store, Store)), "[1 with 0]"},
		{"a user under another name", cat(user("root", 0, All, 0), user("toor", 0, Store, Store)), "[1 with 0]"},
		{"two users", cat(user("root", 0, All, 0), user("pcp", 1, Store, Store)), ""},
		{"a user and *", cat(user("root", 0, All, 0), user(Wildcard, 0, Store, Store)), ""},
		{"* twice", cat(user(Wildcard, 0, Fetch, 0), user(Wildcard, 0, Store, Store)), ""},
		{"* in contradiction", cat(user(Wildcard, 0, All, 0), user(Wildcard, 0, Store, Store)), "[1 with 0]"},
		{"all clashes are reported", cat(allow(All, star...), disallow(All, star...)), "[3 with 0 4 with 1 5 with 2]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := New(tt.rules, Env{})
			var clashes Clashes
			got := ""
			if errors.As(err, &clashes) {
				var list []string
				for _, c := range clashes {
					list = append(list, fmt.Sprintf("%d with %d", c.Index, c.With))
				}
				got = fmt.Sprint(list)
			}
			if got != tt.want || l == nil {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
		})
	}
	_, err := New(cat(allow(All, h), disallow(All, h)), Env{})
	if want := "permission clash for host 192.0.2.2 with earlier statement for 192.0.2.2"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

func TestTables(t *testing.T) {
	gid := func(name string, id uint32) Rule {
		return Rule{Kind: Group, Name: name, ID: id, Specified: Store, Denied: Store}
	}
	rules := cat(
		disallow(Store, v4, v6), allow(Fetch, HostSpec{IPv6, addr("fe80::1:0"), addr("ffff::ffff:0"), 5}),
		limit(4, allow(All, unix, one("127.0.0.1"))),
		[]Rule{
			{Kind: User, Name: Wildcard, Specified: Fetch, Max: 7},
			{Kind: User, Name: "root", ID: 0, Groups: []uint32{0}, GroupNames: []string{"root"}, Specified: All, Max: 3},
			{Kind: User, Name: "daemon", ID: 1, Groups: []uint32{1, 29}, GroupNames: []string{"daemon", "audio"}, Specified: All, Denied: Fetch},
			gid("root", 0),
		})
	for i := range rules {
		if rules[i].Kind == Host {
			rules[i].Name = "name"
		}
	}
	l, err := New(rules, Env{})
	if err != nil {
		t.Fatal(err)
	}
	// As pmcd 6.0.3 prints it with -D appl1, except for the members of groups.
	want := `Host access list:
00 01 Cur/MaxCons host-spec                               host-mask                               lvl host-name
== == =========== ======================================= ======================================= === ==============
 y  y     0     4 127.0.0.1                               255.255.255.255                           0 name
 y  y     0     4 /                                       /                                         1 name
    n     0     0 0.0.0.0                                 0.0.0.0                                   4 name
 y        0     0 fe80::1:0                               ffff::ffff:0                              5 name
    n     0     0 ::                                      ::                                        8 name
User access list:
00 01 Cur/MaxCons     uid user-name                       group-list
== == =========== ======= =============================== ==========================================================
 n  y     0     0       1 daemon                          1(daemon),29(audio)
 y  y     0     3       0 root                            0(root)
 y        0     7       * *                              
Group access list:
00 01 Cur/MaxCons     gid group-name                      user-list
== == =========== ======= =============================== ==========================================================
    n     0     0       0 root                           
 n  n     0     0       * *                              `
	if got := l.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = `Host access list empty: host-based access control turned off
User access list empty: user-based access control turned off
Group access list empty: group-based access control turned off`
	if got := (*List)(nil).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
