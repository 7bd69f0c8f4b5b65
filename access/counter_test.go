package access

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func mustNew(t *testing.T, rules []Rule, env Env) *List {
	t.Helper()
	l, err := New(rules, env)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// arrive admits peers, one after the other, and returns the results.
func arrive(c *Counter, order string) (string, []*Conn) {
	var got []string
	var conns []*Conn
	for i, column := range strings.Fields(order) {
		for _, p := range peers {
			if p.column != column {
				continue
			}
			k := new(Conn)
			err := c.Admit(k, i, p.Peer)
			switch {
			case err == nil:
				got = append(got, "ok")
				conns = append(conns, k)
			case errors.Is(err, ErrConnLimit):
				got = append(got, "limit")
			case errors.Is(err, ErrDenied):
				got = append(got, "denied")
			default:
				got = append(got, err.Error())
			}
		}
	}
	return strings.Join(got, " "), conns
}

func TestLimits(t *testing.T) {
	// 192.0.2.2 three times, IPv4 twice.
	gentle := cat(limit(3, allow(All, one("192.0.2.2"))), limit(2, except(Store, v4)))
	// Two addresses of the host's name, as resolvers repeat them.
	self := append(self, self...)
	for _, tt := range []struct {
		name  string
		rules []Rule
		order string
		want  string
	}{
		{"two for all", limit(2, allow(All, star...)), "C C C", "ok ok limit"},
		{"each family for itself", limit(1, allow(All, star...)), "C C E E U U", "ok limit ok limit ok limit"},
		{"the most specific limit decides", gentle, "B C B C C C", "ok ok limit ok ok limit"},
		{"a more specific rule without limit hides one", cat(allow(All, one("192.0.2.2")), limit(1, allow(All, v4))), "C C B C", "ok ok limit ok"},
		// pmcd 6.0.3 counts three times and admits none.
		{"one count for a loopback connection", limit(2, allow(All, star...)), "A A D A", "ok ok limit limit"},
		{"the Unix domain socket", limit(3, allow(All, unix)), "U U U U", "ok ok ok limit"},
		{"a denied peer does not count", cat(limit(1, except(All, one("192.0.2.2"))), limit(1, allow(All, v4))), "C C B B", "denied denied ok limit"},
	} {
		c := NewCounter(mustNew(t, tt.rules, Env{Self: self}))
		got, conns := arrive(c, tt.order)
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		for _, k := range conns {
			k.Release()
			k.Release() // once is enough, twice is no harm
			if k.Denied() != All {
				t.Errorf("%s: a connection may do something after its end", tt.name)
			}
		}
		if len(c.counts) != 0 || len(c.conns) != 0 {
			t.Errorf("%s: %v and %d connections remain", tt.name, c.counts, len(c.conns))
		}
		if again, _ := arrive(c, tt.order); again != tt.want {
			t.Errorf("%s: got %s the second time, want %s", tt.name, again, tt.want)
		}
	}
}

func TestConnLimit(t *testing.T) {
	c := NewCounter(mustNew(t, limit(1, allow(All, unix)), Env{}))
	p := Peer{Family: Unix}
	if err := c.Admit(new(Conn), 0, p); err != nil {
		t.Fatal(err)
	}
	var k Conn
	err := c.Admit(&k, 1, p)
	if k.Denied() != All {
		t.Errorf("%q is denied after the refusal, want all", k.Denied())
	}
	k.Release()
	if want := "host /: connection limit reached (1)"; !errors.Is(err, ErrConnLimit) || err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if got := c.String(); !strings.Contains(got, " y  y     1     1 /  ") {
		t.Errorf("the table does not count:\n%s", got)
	}
}

func TestLogin(t *testing.T) {
	tcp := Peer{Family: Inet, Addr: addr("192.0.2.2")}
	one := func(r Rule) Rule { r.Max = 1; return r }
	rules := cat(disallow(Store, v4), []Rule{one(user("pcp", pcp, All, 0)), user("root", 0, All, 0)})
	c := NewCounter(mustNew(t, rules, Env{Accounts: host}))

	var k, k2 Conn
	if k.Denied() != All {
		t.Errorf("before it is admitted %q is denied, want all", k.Denied())
	}
	if err := c.Admit(&k, 0, tcp); err != nil || k.Denied() != All {
		t.Fatalf("before credentials %q is denied (%v), want all", k.Denied(), err)
	}
	if err := k.Login(tcp); !errors.Is(err, ErrDenied) || k.Denied() != All {
		t.Errorf("without credentials: %v, %q denied", err, k.Denied())
	}
	as := func(id uint32) Peer { p := tcp; p.HasUser, p.UID, p.GID = true, id, id; return p }
	if err := k.Login(as(pcp)); err != nil || k.Denied() != Store {
		t.Errorf("as pcp: %v, %q denied, want what the host rule denies", err, k.Denied())
	}
	if err := c.Admit(&k2, 1, tcp); err != nil {
		t.Fatal(err)
	}
	if err := k2.Login(as(pcp)); !errors.Is(err, ErrConnLimit) || k2.Denied() != All {
		t.Errorf("second pcp: %v, %q denied", err, k2.Denied())
	}
	if err := k.Login(as(0)); err != nil || k.Denied() != Store {
		t.Errorf("as root: %v, %q denied", err, k.Denied())
	}
	if err := k2.Login(as(pcp)); err != nil || k2.Denied() != Store {
		t.Errorf("pcp once more, after the first became root: %v, %q denied", err, k2.Denied())
	}
	if err := k2.Login(as(nobody)); !errors.Is(err, ErrDenied) || k2.Denied() != All {
		t.Errorf("as nobody: %v, %q denied", err, k2.Denied())
	}
	k.Release()
	k2.Release()
	if len(c.counts) != 0 {
		t.Errorf("%v remain", c.counts)
	}
	if err := k.Login(as(0)); !errors.Is(err, ErrDenied) || k.Denied() != All {
		t.Errorf("after its end: %v, %q denied", err, k.Denied())
	}
}

// An admitted peer stays when others have passed its limit.
func TestLoginDoesNotCheckHostLimitsAgain(t *testing.T) {
	rules := cat(allow(All, one("192.0.2.2")), limit(1, allow(All, v4)))
	c := NewCounter(mustNew(t, rules, Env{}))
	_, conns := arrive(c, "B C C")
	if len(conns) != 3 {
		t.Fatalf("%d connections", len(conns))
	}
	if err := conns[0].Login(peers[1].Peer); err != nil {
		t.Error(err)
	}
}

func TestRecount(t *testing.T) {
	c := NewCounter(mustNew(t, nil, Env{}))
	got, conns := arrive(c, "C C C U D")
	if got != "ok ok ok ok ok" {
		t.Fatal(got)
	}
	root := at(0, 0)
	for _, k := range conns {
		p := k.peer
		if p.Family == Unix {
			p = root
		}
		if err := k.Login(p); err != nil {
			t.Fatal(err)
		}
	}
	list := func(refused []Refusal) string {
		s := ""
		for _, r := range refused {
			s += fmt.Sprintf("%d %v; ", r.Conn.Num(), r.Err)
			if r.Conn.Denied() != All {
				t.Errorf("%d is refused and may do something", r.Conn.Num())
			}
		}
		return s
	}

	refused := c.Recount(mustNew(t, cat(limit(1, allow(All, v4)), disallow(Store, unix)), Env{Self: self}))
	// The first one and, as ::1 is evaluated as 127.0.0.1, not the last one.
	want := "1 host 0.0.0.0: connection limit reached (1); 2 host 0.0.0.0: connection limit reached (1); 4 host 0.0.0.0: connection limit reached (1); "
	if got := list(refused); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d := conns[3].Denied(); d != Store {
		t.Errorf("Unix: %q denied, want store", d)
	}

	refused = c.Recount(mustNew(t, []Rule{group("root", 0, Store, Store)}, Env{Accounts: host}))
	if got, want := list(refused), "0 access denied; "; got != want {
		t.Errorf("credentials required: got %s, want %s", got, want)
	}
	if d := conns[3].Denied(); d != Store {
		t.Errorf("root: %q denied, want store", d)
	}
	// A connection that has not sent its credentials yet stays.
	var k Conn
	if err := c.Admit(&k, 9, peers[2].Peer); err != nil {
		t.Fatal(err)
	}
	if refused = c.Recount(c.List()); len(refused) != 0 || k.Denied() != All {
		t.Errorf("before credentials: %s, %q denied", list(refused), k.Denied())
	}
	if refused = c.Recount(nil); len(refused) != 0 || k.Denied() != 0 || conns[3].Denied() != 0 {
		t.Errorf("no rules: %s", list(refused))
	}
	if conns[1].Denied() != All {
		t.Error("a refused connection is allowed something again")
	}
}

// slow is a Resolver that returns after the rules have been replaced.
type slow struct {
	replace func()
	once    sync.Once
}

func (s *slow) Groups(uint32) ([]uint32, error) {
	s.once.Do(s.replace)
	return []uint32{pcp}, nil
}

func TestLoginWhileRulesAreReplaced(t *testing.T) {
	s := &slow{}
	after := mustNew(t, []Rule{group("pcp", pcp, Store, Store)}, Env{Accounts: s})
	c := NewCounter(mustNew(t, []Rule{group("pcp", pcp, All, 0)}, Env{Accounts: s}))
	s.replace = func() { c.Recount(after) }
	var k Conn
	if err := c.Admit(&k, 0, at(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := k.Login(at(1, 1)); err != nil || k.Denied() != Store {
		t.Errorf("%v, %q denied, want what the new rules say", err, k.Denied())
	}
}

// TryLogin is Login, except where the rules need the groups of the user.
func TestTryLogin(t *testing.T) {
	s := &slow{replace: func() { t.Error("the Resolver was called") }}
	c := NewCounter(mustNew(t, []Rule{user("pcp", pcp, All, Store)}, Env{Accounts: s}))
	var k Conn
	if err := c.Admit(&k, 0, at(1, 1)); err != nil {
		t.Fatal(err)
	}
	as := at(1, 1)
	as.HasUser, as.UID, as.GID = true, pcp, pcp
	if done, err := k.TryLogin(as); !done || err != nil || k.Denied() != Store {
		t.Errorf("rules for users: %v, %v, %q denied", done, err, k.Denied())
	}
	c = NewCounter(mustNew(t, []Rule{group("pcp", pcp, All, 0)}, Env{Accounts: s}))
	k = Conn{}
	if err := c.Admit(&k, 0, at(1, 1)); err != nil {
		t.Fatal(err)
	}
	if done, err := k.TryLogin(as); done || err != nil || k.Denied() != All {
		t.Errorf("rules for groups: %v, %v, %q denied", done, err, k.Denied())
	}
}

// Connections of one user are told apart by their groups, although the user is looked up once.
func TestRecountGroupsOfPeers(t *testing.T) {
	c := NewCounter(mustNew(t, nil, Env{}))
	conns := make([]Conn, 2)
	for i := range conns {
		p := at(1000, uint32(i+1))
		if err := errors.Join(c.Admit(&conns[i], i, p), conns[i].Login(p)); err != nil {
			t.Fatal(err)
		}
	}
	b := &busy{connect: func(int) {}}
	c.Recount(mustNew(t, []Rule{group("one", 1, All, 0), group("two", 2, All, Store)}, Env{Accounts: b}))
	if one, two := conns[0].Denied(), conns[1].Denied(); one != 0 || two != Store || b.lookups != 1 {
		t.Errorf("%q and %q denied after %d look-ups, want nothing, and store for group 2", one, two, b.lookups)
	}
}

// busy is a Resolver during each of whose calls another client connects and logs in.
type busy struct {
	connect func(lookups int)
	lookups int // for Recount
	inside  bool
}

func (b *busy) Groups(uint32) ([]uint32, error) {
	if b.inside { // for the client that connects
		return []uint32{pcp}, nil
	}
	b.lookups++
	b.inside = true
	b.connect(b.lookups)
	b.inside = false
	return []uint32{pcp}, nil
}

// Clients that connect in a loop do not keep the old rules in force: the number of look-ups
// is that of the users that were connected before, and the clients that come meanwhile are
// judged by the new rules. The oldest keep their places.
func TestRecountWhileClientsConnect(t *testing.T) {
	const old, most = 3, 50
	b := &busy{}
	c := NewCounter(mustNew(t, nil, Env{}))
	var conns []*Conn
	login := func(uid uint32) *Conn {
		k := new(Conn)
		p := at(uid, 1)
		if err := c.Admit(k, len(conns), p); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, k)
		if err := k.Login(p); err != nil && !errors.Is(err, ErrConnLimit) {
			t.Fatal(err)
		}
		return k
	}
	for i := range 2 * old {
		login(uint32(i % old))
	}
	b.connect = func(lookups int) {
		if lookups > most {
			return
		}
		login(uint32(100 + lookups))
		for _, k := range conns {
			if k.Denied()&Store == 0 {
				t.Errorf("look-up %d: client %d may store, which the new rules for hosts deny", lookups, k.Num())
			}
		}
	}
	rule := group("pcp", pcp, All, 0)
	rule.Max = 2*old + 1
	refused := c.Recount(mustNew(t, cat(disallow(Store, unix), []Rule{rule}), Env{Accounts: b}))
	if b.lookups != old {
		t.Errorf("%d look-ups, want one for each of the %d users that were connected", b.lookups, old)
	}
	if len(refused) != old-1 {
		t.Errorf("%d refused, want %d: all but one of those that have connected meanwhile", len(refused), old-1)
	}
	for i, k := range conns {
		want := Store
		if i > 2*old {
			want = All
		}
		if k.Denied() != want {
			t.Errorf("client %d: %q denied, want %q", i, k.Denied(), want)
		}
	}
}

func TestCounterConcurrently(t *testing.T) {
	lists := []*List{
		mustNew(t, limit(50, allow(All, star...)), Env{Self: self}),
		mustNew(t, cat(limit(3, allow(All, v4)), []Rule{group("root", 0, All, 0)}), Env{Accounts: host}),
	}
	c := NewCounter(lists[0])
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				k := new(Conn)
				if err := c.Admit(k, i, peers[i%len(peers)].Peer); err != nil {
					continue
				}
				k.Login(at(0, 0))
				k.Denied()
				k.Release()
			}
		})
	}
	for i := range 100 {
		c.Recount(lists[i%2])
		_ = c.String()
	}
	wg.Wait()
	if len(c.counts) != 0 || len(c.conns) != 0 {
		t.Errorf("%v and %d connections remain", c.counts, len(c.conns))
	}
}
