package daemon

import (
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A hangingAccounts is a Resolver with a user whose groups cannot be looked up until open
// is closed, as with a directory server that does not answer.
type hangingAccounts struct {
	pmcdconf.Resolver
	asked, open chan struct{}
}

func (h *hangingAccounts) User(string) (uint32, []uint32, error) { return 0, nil, nil }
func (h *hangingAccounts) Group(string) (uint32, error)          { return 7, nil }

func (h *hangingAccounts) Groups(uint32) ([]uint32, error) {
	h.asked <- struct{}{}
	<-h.open
	return nil, nil
}

// The daemon ends although the look-up of a client's groups hangs.
func TestEndWhileLookupHangs(t *testing.T) {
	h := &hangingAccounts{asked: make(chan struct{}), open: make(chan struct{})}
	r := newHarness(t, func(c *Config) {
		withAccess("disallow group staff : store;\n")(c)
		c.resolver = h
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
