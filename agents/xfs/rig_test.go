package xfs

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// A rig is an agent for a tree, and a client of it.
type rig struct {
	*pmdatest.Rig
	host *host
}

func newRig(tb testing.TB, root string) *rig {
	tb.Helper()
	h := newHost(11, Options{Root: root})
	a, err := h.agent(help)
	if err != nil {
		tb.Fatal(err)
	}
	return &rig{pmdatest.New(tb, 11, a, newHost(11, Options{}).metrics()), h}
}
