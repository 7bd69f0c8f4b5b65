package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A directory knows the address of one host, if known is set.
type directory struct {
	pmcdconf.Resolver
	known atomic.Bool
}

func (d *directory) Hosts(name string) ([]netip.Addr, error) {
	if name == "faraway" && d.known.Load() {
		return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
	}
	return nil, errors.New("no such host")
}

func (*directory) Static(string) []netip.Addr { return nil }

// A rule that is left out because its host cannot be looked up is a problem until a
// reload finds the host, or reads a configuration without such a rule. The reload looks
// also if the file has not changed.
func TestLeftOutRule(t *testing.T) {
	const good = "allow 127.0.0.1 : all;\n"
	names := new(directory)
	r := newHarness(t, func(c *Config) {
		withAccess(good + "disallow faraway : all;\n")(c)
		c.hooks.resolver = names
	}, nil)
	r.awaitStarts()
	leftOut := func(number, col int, host string) string {
		return fmt.Sprintf("%s/pmcd.conf:%d:%d: access control error for host '%s': no such host; this rule is left out until a reload finds the host", r.dir, number, col, host)
	}
	check := func(when string, allowed bool, want ...string) {
		t.Helper()
		if got := r.Problems(); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", when, got, want)
		}
		c := r.from("127.0.0.2")
		if got := show(c.recv()) == "0"; got != allowed {
			t.Errorf("%s: the client is allowed: %v, want %v", when, got, allowed)
		}
		c.Conn.Close()
	}
	check("at the start", true, leftOut(6, 10, "faraway"))
	agent := r.routes.Load().Agent(240).Conn()
	r.reloaded()
	check("the name is still unknown", true, leftOut(6, 10, "faraway"))
	names.known.Store(true)
	r.reloaded()
	check("the name is known", false)
	if r.routes.Load().Agent(240).Conn() != agent {
		t.Error("agent 240 was started again")
	}

	r.write("pmcd.conf", testAgents+good+"disallow faraway : all;\ndisallow other : all;\n")
	r.reloaded()
	check("another name", false, leftOut(7, 10, "other"))
	r.write("pmcd.conf", "nonsense\n")
	r.reloaded()
	check("a file that is rejected", false, leftOut(7, 10, "other"))
	r.write("pmcd.conf", testAgents+good)
	r.reloaded()
	check("no such rule", true)

	rules, want := testAgents+good, []string(nil)
	for i := range 7 {
		rules += fmt.Sprintf("disallow h%d : all;\n", i)
		if i < 5 {
			want = append(want, leftOut(6+i, 10, fmt.Sprint("h", i)))
		}
	}
	r.write("pmcd.conf", rules)
	r.reloaded()
	check("many names", true, append(want, "and 2 more access rules are left out: the log has them")...)
}
