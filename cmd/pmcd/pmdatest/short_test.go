package pmdatest

import (
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

var short = [][]agent{
	{{name: "mounts"}, {name: "netfilter"}},
}

// TestShort tries agents whose subject every host has.
func TestShort(t *testing.T) {
	peer.RequireRelease(t, peer.Trixie)
	for _, agents := range short {
		t.Run(agents[0].name, func(t *testing.T) {
			t.Parallel()
			tryAll(t, peer.Trixie, "", "", agents)
		})
	}
}
