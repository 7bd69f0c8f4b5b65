package pmcdconf

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
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
