package pmcdconf

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/access"
)

// fake is a host on which vm, its own name, is 127.0.0.1.
type fake struct {
	hosts map[string]string
}

var (
	accounts = map[string]uint32{"root": 0, "daemon": 1, "pcp": 995, "nobody": 65534}
	vm       = fake{
		hosts: map[string]string{"vm": "127.0.0.1", "two": "192.0.2.7 ::ffff:192.0.2.8 fd00::7 192.0.2.7"},
	}
	fakeOptions = Options{Hostname: "vm", Resolver: vm}
)

func (f fake) Hosts(name string) (addrs []netip.Addr, err error) {
	for _, a := range strings.Fields(f.hosts[name]) {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		err = errors.New("no such host")
	}
	return addrs, err
}

func (fake) Static(string) []netip.Addr { return nil }

func (f fake) Port(name string) (int, error) {
	if n, ok := map[string]int{"http": 80, "ntp": 123}[name]; ok {
		return n, nil
	}
	return 0, errors.New("unknown service")
}

func (f fake) User(name string) (uint32, []uint32, error) {
	if id, ok := accounts[name]; ok {
		return id, []uint32{id}, nil
	}
	return 0, nil, errors.New("unknown user")
}

func (f fake) GroupName(gid uint32) string {
	for name, id := range accounts {
		if id == gid {
			return name
		}
	}
	return ""
}

func (f fake) Group(name string) (uint32, error) {
	if id, ok := accounts[name]; ok {
		return id, nil
	}
	return 0, errors.New("unknown group")
}

func (f fake) Groups(uid uint32) ([]uint32, error) { return []uint32{uid}, nil }

func TestSystemResolver(t *testing.T) {
	text := head + "allow localhost, " + nohost + " : fetch; allow user root : all; allow group root : all;"
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 1 || !conf.Problems[0].Warning {
		t.Errorf("got %d problems, want one: %v", n, conf.Problems)
	}
	if got := describeHosts(conf.Access); !strings.Contains(got, "127.0.0.1") && !strings.Contains(got, "::1") {
		t.Errorf("localhost is %s", got)
	}
	root := access.Peer{Family: access.Unix, HasUser: true}
	if denied, err := conf.Access.Account(root); denied != 0 || err != nil {
		t.Errorf("root is denied %q, %v", denied, err)
	}
	s := system{maxResolve}
	if _, _, err := s.User("0"); err == nil {
		t.Error("a number is a user")
	}
	if _, err := s.Group("0"); err == nil {
		t.Error("a number is a group")
	}
	for _, name := range []string{"", "+80", "-1", "http/tcp"} {
		if n, err := s.Port(name); err == nil {
			t.Errorf("port %q is %d", name, n)
		}
	}
	for name, want := range map[string]int{"http": 80, "domain": 53} {
		if n, err := s.Port(name); n != want {
			t.Errorf("port %s is %d, %v", name, n, err)
		}
	}
	if g, err := s.Groups(2_000_000_001); g != nil || err != nil {
		t.Errorf("groups of an unknown account: %v, %v", g, err)
	}
}

// together is a Resolver that returns when all names are being looked up.
type together struct {
	fake
	asked *sync.WaitGroup
}

func (r together) Hosts(name string) ([]netip.Addr, error) {
	r.asked.Done()
	r.asked.Wait()
	return r.fake.Hosts(name)
}

// All hosts of a section and this host's own name are looked up concurrently, each
// once.
func TestLookupsAtTheSameTime(t *testing.T) {
	r := together{vm, new(sync.WaitGroup)}
	r.asked.Add(4)
	text := head + `allow one.invalid, two, 192.0.2.1, "fd00::1", 10.*, "local:*" : fetch;
		allow two : store; disallow three.invalid, localhost : store;`
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "vm", Resolver: r})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 2 {
		t.Errorf("got %d problems, want those of two names: %v", n, conf.Problems)
	}
}

// If a name server does not reply, looking up a host fails after the timeout.
func TestDeadNameServer(t *testing.T) {
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	text := head + "allow nowhere.example.com, elsewhere.example.com : all; disallow 192.0.2.2 : store;"
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "localhost", Resolver: system{50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 2 || !conf.Problems[0].Warning || !conf.Problems[1].Warning {
		t.Errorf("got %d problems, want two warnings: %v", n, conf.Problems)
	}
	if !slices.Equal(conf.LeftOut, conf.Problems) {
		t.Errorf("left out are %v, want the two", conf.LeftOut)
	}
	if got := result(conf.Access.Host(access.Peer{Family: access.Inet, Addr: netip.MustParseAddr("192.0.2.2")})); got != "f-" {
		t.Errorf("192.0.2.2 gets %s, want f-", got)
	}
}
