package peertest

import (
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func TestPmval(t *testing.T) {
	exact := peer.Comparison{Differences: differences}
	shape := peer.Comparison{Default: peer.Shape, Differences: differences}
	for _, c := range []struct {
		args   string
		cmp    peer.Comparison
		status int
	}{
		{"sample.long.hundred", exact, 0},
		{"-i bin-100,bin-300 sample.bin", exact, 0},
		{"-i bin-900,bin-200,bin-400 -r sample.longlong.bin_ctr", exact, 0},
		{"sample.bin", exact, 0},
		{"-r sample.ulong.bin_ctr", exact, 0},
		{"-f 3 sample.double.million", exact, 0},
		{"-w 20 sample.ulonglong.million", exact, 0},
		{"sample.float.ten", exact, 0},
		{"sample.string.hullo", exact, 0},
		{"sample.aggregate.hullo", exact, 0},
		{"sample.string.null", exact, 0},
		{"-v sample.bad.novalues", exact, 0},
		{"sample.secret.foo.bar.grunt.snort.huff.puff.seven", exact, 0},
		{"sample.secret.foo.bar.max.redirect", exact, 0},
		{"-X sample.colour", exact, 0},
		{"sample.rapid", shape, 0},
		{"simple.now", shape, 0},
		{"kernel.all.load", shape, 0},
		{"kernel.percpu.cpu.user", shape, 0},
		{"-i cpu0 kernel.percpu.cpu.idle", shape, 0},
		{"-x 3 sample.write_me", exact, 0},
		{"-i nosuch sample.bin", exact, 1},
		{"-i cpu0,nosuch kernel.percpu.cpu.user", exact, 1},
		{"no.such", exact, 1},
		{"sample.long", exact, 1},
		{"sample.secret", exact, 1},
		{"sample.bad.unknown", exact, 1},
		{"kvm.exits", exact, 1},
	} {
		t.Run(c.args, func(t *testing.T) {
			c.cmp.Status = c.status
			compare(t, words("pmval -h {host} -s 3 -t 20msec "+c.args), c.cmp)
		})
	}
}

// TestPmevent unpacks event records, which the agent makes in a fixed order:
// both daemons are asked equally often.
func TestPmevent(t *testing.T) {
	compare(t, words("pmevent -h {host} -s 4 -t 20msec sample.event.records"), peer.Comparison{Default: peer.Shape})
}
