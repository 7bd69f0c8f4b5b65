package peertest

import (
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func pmprobe() peer.Comparison {
	return peer.Comparison{Split: peer.Lines, Rules: moving, Differences: differences, Status: peer.AnyStatus}
}

func TestPmprobe(t *testing.T) {
	for _, opts := range []string{"", "-v", "-i", "-I", "-f -i", "-f -I", "-b 1000 -v"} {
		t.Run("all but processes "+opts, func(t *testing.T) {
			compareAll(t, "pmprobe -h {host} "+opts, pmprobe())
		})
	}
	// pmdaproc shows a client what the client's user may see. The daemon tells it the
	// user. The user of a client over TCP is not known, so that client sees nothing.
	t.Run("processes", func(t *testing.T) {
		compare(t, words("pmprobe -h {host} proc hotproc"), pmprobe())
	})
	for _, opts := range []string{"-v", "-i", "-I", "-F -v", "-F -i", "-F -I", "-F"} {
		for _, args := range []string{
			"sample.long.one sample.bin sample.string.hullo sample.double.million sample.aggregate.hullo",
			"sample.long sample.secret",
			"no.such sample.nosuch sample.long.one",
			"sample.bad sample.dupnames",
			"kvm.exits xfs.log.writes",
			"pmcd.agent.status pmcd.agent.name pmcd.control.register",
			"sample.event.records",
		} {
			t.Run(opts+" "+args, func(t *testing.T) {
				compare(t, words("pmprobe -h {host} "+opts+" "+args), pmprobe())
			})
		}
	}
}
