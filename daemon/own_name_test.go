package daemon

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A quiet is a Resolver of a name server that answers when the test does: with an address, or "".
type quiet struct {
	pmcdconf.Resolver
	asked chan chan string
}

func newQuiet() *quiet { return &quiet{asked: make(chan chan string, 10)} }

func (q *quiet) Hosts(string) ([]netip.Addr, error) {
	answer := make(chan string)
	q.asked <- answer
	if addr := <-answer; addr != "" {
		return []netip.Addr{netip.MustParseAddr(addr)}, nil
	}
	return nil, errors.New("no such host")
}

func (*quiet) Static(string) []netip.Addr { return nil }

// Neither the start nor a reload waits for the name server that knows this host's own name. When it
// has answered, rules for localhost are those of that address, also for clients that have connected
// before. An answer for rules that a reload has replaced has no effect.
func TestOwnNameLater(t *testing.T) {
	const rules = "disallow .* : store;\nallow localhost : all;\n"
	names := newQuiet()
	r := newHarness(t, func(c *Config) {
		withAccess(rules)(c)
		c.hooks.resolver = names
	}, nil)
	r.awaitStarts()
	for _, addr := range []string{"127.0.0.1", "127.0.0.2"} {
		if _, got := r.in(addr); got != "ok" {
			t.Fatalf("%s: %s", addr, got)
		}
	}
	denied := func() (all [2]string) {
		for i, c := range r.Status().Clients {
			all[i] = c.Denied
		}
		return all
	}
	if got := denied(); got != [2]string{"", "store"} {
		t.Errorf("no answer yet: the two clients are denied %q", got)
	}

	r.write("pmcd.conf", testAgents+rules)
	r.reloaded()
	for _, addr := range []string{"127.0.0.1", "127.0.0.2"} {
		<-names.asked <- addr
	}
	testutil.Eventually(t, "the rule is for the address of the own name", func() bool { return denied() == [2]string{} })
	r.sessions.LogRules()
	if want := "127.0.0.2                               255.255.255.255                           0 localhost"; !r.logged(want) {
		t.Errorf("the table does not say %q", want)
	}
}

// If no name server knows this host's own name, or its address makes rules contradict each other,
// rules for localhost are for loopback addresses.
func TestOwnNameNever(t *testing.T) {
	names := newQuiet()
	r := newHarness(t, func(c *Config) {
		withAccess("disallow .* : store;\nallow localhost : all;\ndisallow 127.0.0.2 : all;\n")(c)
		c.hooks.resolver = names
	}, nil)
	r.awaitStarts()
	<-names.asked <- "127.0.0.2"
	r.awaitLogged(t, "rules for localhost are for loopback addresses alone: with those of this host's own name there is a permission clash for host 127.0.0.2")
	r.write("pmcd.conf", testAgents+"disallow .* : store;\nallow localhost : all;\n")
	r.reloaded()
	<-names.asked <- ""
	if _, got := r.in("127.0.0.1"); got != "ok" || r.Status().Clients[0].Denied != "" {
		t.Errorf("a client at 127.0.0.1: %s, %q is denied", got, r.Status().Clients[0].Denied)
	}
}
