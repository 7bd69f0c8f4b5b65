package pmcdconf

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/access"
)

func TestBadHosts(t *testing.T) {
	for name, want := range badHosts {
		t.Run(name, func(t *testing.T) {
			conf, err := Parse("conf", strings.NewReader(head+"allow \""+name+"\" : fetch;"), fakeOptions)
			if err == nil || len(conf.Problems) != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestHostNames(t *testing.T) {
	for _, tt := range []struct {
		name, self, want string
	}{
		{"two", "vm", "y  192.0.2.7; y  192.0.2.8; y  fd00::7"}, // each address once
		{"localhost", "two", "y  192.0.2.7; y  192.0.2.8; y  fd00::7"},
		{"vm", "nosuch", "y  127.0.0.1"},
		{"[::1]", "vm", ""},
		{"192.0.2.0/24", "vm", ""},
		{"1.2.3.256", "vm", ""},
		{"1.2.65536", "vm", ""},
		{"4294967296", "vm", ""},
		{"4294967295", "vm", "y  255.255.255.255"},
		{"08.1.1.1", "vm", ""},
		{"1.2.3.4.", "vm", ""},
		{"1.2.3.4.5", "vm", ""},
		{"0x", "vm", ""},
		{"", "vm", ""},
		{"UNIX:", "vm", ""},
		{"unix", "vm", ""},
		{"localhost", "nosuch", ""},
	} {
		t.Run(tt.name+" on "+tt.self, func(t *testing.T) {
			conf, err := Parse("conf", strings.NewReader(head+"allow \""+tt.name+"\" : fetch;"), Options{Hostname: tt.self, Resolver: vm})
			if got := describeHosts(conf.Access); got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
			if (err == nil) != (tt.want != "") {
				t.Errorf("got %v", err)
			}
		})
	}
	// Without an address of the host's own name, the addresses of localhost are used.
	f := fake{hosts: map[string]string{"localhost": "127.0.0.1"}}
	conf, err := Parse("conf", strings.NewReader(head+"allow LOCALHOST : fetch;"), Options{Hostname: "vm", Resolver: f})
	if got := describeHosts(conf.Access); got != "y  127.0.0.1" {
		t.Errorf("got %s, %v", got, err)
	}
}

// counting is a Resolver that counts look-ups.
type counting struct {
	fake
	mu *sync.Mutex // guards the following
	n  map[string]int
}

func (c counting) Hosts(name string) ([]netip.Addr, error) {
	c.mu.Lock()
	c.n[name]++
	c.mu.Unlock()
	return c.fake.Hosts(name)
}

func TestHostsAreResolvedOnce(t *testing.T) {
	c := counting{vm, new(sync.Mutex), make(map[string]int)}
	if _, err := Parse("conf", strings.NewReader("a 1 dso f /x\n"), Options{Hostname: "vm", Resolver: c}); err != nil || len(c.n) != 0 {
		t.Errorf("without access rules: %v, asked for %v", err, c.n)
	}
	text := head + "allow two, nosuch, two : fetch; allow localhost, nosuch, LOCALHOST : fetch; allow users * : all;"
	if _, err := Parse("conf", strings.NewReader(text), Options{Hostname: "vm", Resolver: c}); err != nil {
		t.Fatal(err)
	}
	if len(c.n) != 3 || c.n["two"] != 1 || c.n["nosuch"] != 1 || c.n["vm"] != 1 {
		t.Errorf("asked for %v", c.n)
	}
}

// A slow is a fake whose hosts a name server knows, and which has others in a file.
type slow struct {
	fake
	file  fake
	asked chan string // names that the name server was asked for
}

func (s slow) Hosts(name string) ([]netip.Addr, error) {
	s.asked <- name
	return s.fake.Hosts(name)
}

func (s slow) Static(name string) []netip.Addr {
	addrs, _ := s.file.Hosts(name)
	return addrs
}

// With OwnNameLater, a name server is asked only for hosts that rules name, and for this host's own
// name by Complete.
func TestOwnNameLater(t *testing.T) {
	server := map[string]string{"me": "192.0.2.1 fd00::1", "two": "192.0.2.7"}
	loopback := map[string]string{"localhost": "127.0.0.1"}
	for _, tt := range []struct {
		name, rules string
		server      map[string]string
		file        map[string]string
		asked       string // while the rules are read
		now         string
		later       string // "" if there is no Complete
		as          string // operations of a client at 127.0.0.1 then
	}{
		{"no rule for hosts", "allow user root : all;", server, loopback, "", "", "", ""},
		{"the own name in a file", "allow localhost : fetch;", server, map[string]string{"me": "127.0.1.1"}, "", "y  127.0.1.1", "", ""},
		{"localhost", "disallow LocalHost : store;", server, loopback, "", " n 127.0.0.1", " n 192.0.2.1;  n fd00::1", "f-"},
		{"localhost in no file", "allow localhost : fetch;", server, nil, "", "y  127.0.0.1; y  ::1", "y  192.0.2.1; y  fd00::1", "fs"},
		{"the rules of PCP", `disallow ".*" : store; disallow ":*" : store; allow "local:*" : all;`, server, loopback, "",
			"yy 127.0.0.1; yy /;  n 0.0.0.0/0.0.0.0;  n ::/::", "yy 192.0.2.1; yy fd00::1; yy /;  n 0.0.0.0/0.0.0.0;  n ::/::", "fs"},
		{"two statements", "allow localhost : fetch; disallow localhost : store; allow 10.* : all;", server, loopback, "",
			"yn 127.0.0.1; yy 10.0.0.0/255.0.0.0", "yn 192.0.2.1; yn fd00::1; yy 10.0.0.0/255.0.0.0", "f-"},
		{"another host", "allow two, localhost : fetch;", server, loopback, "two", "y  192.0.2.7; y  127.0.0.1", "y  192.0.2.7; y  192.0.2.1; y  fd00::1", "fs"},
		{"the own name in a rule", "allow me, localhost : fetch;", server, loopback, "me", "y  192.0.2.1; y  fd00::1", "", ""},
		{"addresses", "disallow 192.0.2.1 : store; disallow 192.0.3.* : all;", server, loopback, "", " n 192.0.2.1; nn 192.0.3.0/255.255.255.0", " n 192.0.2.1; nn 192.0.3.0/255.255.255.0", "f-"},
		{"a name that no server knows", "allow localhost : fetch;", nil, loopback, "", "y  127.0.0.1", "none", ""},
		{"a clash with the own name", "allow localhost : all; disallow 192.0.2.1 : all;", server, loopback, "",
			"yy 127.0.0.1; nn 192.0.2.1", "permission clash for host 192.0.2.1 with earlier statement for localhost", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := slow{fake{tt.server}, fake{tt.file}, make(chan string, 10)}
			conf, err := Parse("conf", strings.NewReader(head+tt.rules), Options{Hostname: "me", Resolver: s, OwnNameLater: true})
			if err != nil {
				t.Fatal(err)
			}
			asked := ""
			for range len(s.asked) {
				asked += <-s.asked
			}
			if got := describeHosts(conf.Access); asked != tt.asked || got != tt.now {
				t.Errorf("asked for %q, got %s; want %q, %s", asked, got, tt.asked, tt.now)
			}
			if conf.Complete == nil {
				if tt.later != "" {
					t.Error("the addresses of the own name are not looked up")
				}
				return
			}
			later, loopback := completed(conf)
			if later != tt.later || loopback != tt.as {
				t.Errorf("completed: got %s, a client at 127.0.0.1 gets %q; want %s, %q", later, loopback, tt.later, tt.as)
			}
		})
	}
}

// completed describes what Complete returns.
func completed(conf *Config) (hosts, loopback string) {
	list, err := conf.Complete()
	switch {
	case err != nil:
		return err.Error(), ""
	case list == nil:
		return "none", ""
	}
	return describeHosts(list), result(list.Host(access.Peer{Family: access.Inet, Addr: netip.MustParseAddr("127.0.0.1")}))
}

// Names in /etc/hosts need no name server.
func TestStaticHosts(t *testing.T) {
	if got := StaticHosts("localhost"); len(got) == 0 || !got[0].Unmap().IsLoopback() {
		t.Errorf("localhost is at %v", got)
	}
	if got := StaticHosts(nohost); len(got) > 0 {
		t.Errorf("%s is at %v", nohost, got)
	}
}
