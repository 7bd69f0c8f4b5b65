package qemutest

import (
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// A pmcd for another processor starts PCP's agents, which are programs for this machine, and
// passes on what they say: values of all types.
func TestPMDAs(t *testing.T) {
	eachProcessor(t, func(t *testing.T, p processor) {
		pair := peer.Pair{C: peer.StartT(t, peer.CPmcd, peer.Config{}), Ours: peer.StartT(t, p.pmcd(t), peer.Config{})}
		for _, args := range [][]string{
			{"pminfo", "-h", "{host}", "-dm", "sample", "simple"},
			{"pminfo", "-h", "{host}", "-f", "sample.long.ten", "sample.long.bin", "sample.longlong.ten", "sample.longlong.write_me", "sample.ulong.million",
				"sample.ulonglong.million", "sample.float.hundred", "sample.float.bin", "sample.double.hundred", "sample.double.bin",
				"sample.string", "sample.aggregate", "sample.bin", "sample.colour", "simple"},
		} {
			pair.Compare(t, peer.TCP4, peer.Client{Args: args}, peer.Comparison{Split: peer.Metrics, Must: "sample."})
		}
	})
}
