package daemon

import (
	"net/netip"
	"testing"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A hanging is a Resolver with hosts, and a user whose groups, that cannot be looked up
// until open is closed, as with a directory server that does not answer.
type hanging struct {
	pmcdconf.Resolver
	asked, open chan struct{}
}

func newHanging() *hanging {
	return &hanging{asked: make(chan struct{}, 10), open: make(chan struct{})}
}

func (h *hanging) User(string) (uint32, []uint32, error) { return 0, nil, nil }
func (h *hanging) Group(string) (uint32, error)          { return 7, nil }

func (h *hanging) Hosts(string) ([]netip.Addr, error) {
	h.asked <- struct{}{}
	<-h.open
	return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
}

func (*hanging) Static(string) []netip.Addr { return nil }

func (h *hanging) Groups(uint32) ([]uint32, error) {
	h.asked <- struct{}{}
	<-h.open
	return nil, nil
}

// The daemon ends although a reload hangs that looks up the groups of users.
func TestEndWhileReloadLooksUp(t *testing.T) {
	h := newHanging()
	r := newHarness(t, func(c *Config) { c.hooks.resolver = h }, nil)
	t.Cleanup(func() { close(h.open) }) // first of all cleanups: see testutil.CheckLeaks
	r.awaitStarts()
	c := r.from("unix")
	c.send(hello)
	c.recv()
	c.send(&pdu.DescReq{PMID: id(241, 1)})
	c.recv() // it has logged in before
	r.write("pmcd.conf", testAgents+"disallow group staff : store;\n")
	r.Reload()
	<-h.asked
	r.stop()
}

// The daemon ends although the look-up of a client's groups hangs.
func TestEndWhileLookupHangs(t *testing.T) {
	h := newHanging()
	r := newHarness(t, func(c *Config) {
		withAccess("disallow group staff : store;\n")(c)
		c.hooks.resolver = h
	}, nil)
	t.Cleanup(func() { close(h.open) }) // first of all cleanups: see testutil.CheckLeaks
	r.awaitStarts()
	c := r.from("unix")
	c.send(hello)
	<-h.asked
	r.stop()
	if want := "before the sessions of all clients have ended (1 left)"; !r.logged(want) {
		t.Errorf("the log has not %q", want)
	}
}
