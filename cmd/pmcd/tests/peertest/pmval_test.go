package peertest

import (
	"fmt"
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

// TestEvents unpacks event records. The agent makes them in a fixed order,
// which is started anew before each look.
func TestEvents(t *testing.T) {
	for _, line := range []string{
		"pmevent -h {host} -s 4 -t 20msec sample.event.records",
		"pminfo -h {host} -x sample.event.records",
		"pminfo -h {host} -f sample.event.records",
		"pmprobe -h {host} -v sample.event.records",
	} {
		t.Run(line, func(t *testing.T) {
			p := servers(t)
			for _, tr := range peer.Transports {
				t.Run(tr.String(), func(t *testing.T) {
					usable(t, tr)
					p.CompareFunc(t, func(d *peer.Daemon) (peer.Output, error) {
						if o, err := d.Run(t.Context(), tr, words("pmstore -h {host} sample.event.reset 0")); err != nil || o.Code != 0 {
							return o, fmt.Errorf("cannot start the events anew: %v %w", o, err)
						}
						return d.Run(t.Context(), tr, words(line))
					}, peer.Comparison{Default: peer.Shape})
				})
			}
		})
	}
}

// TestHighResEvents does the same with the metric that cannot be started anew. Its
// daemons have not been asked for it before.
func TestHighResEvents(t *testing.T) {
	p := otherPair(t, func() peer.Config { return peer.Config{} })
	for _, line := range []string{
		"pminfo -h {host} -x sample.event.highres_records",
		"pminfo -h {host} -f sample.event.highres_records",
		"pmprobe -h {host} -v sample.event.highres_records",
	} {
		for _, tr := range peer.Transports {
			t.Run(line+"/"+tr.String(), func(t *testing.T) {
				usable(t, tr)
				p.Compare(t, tr, words(line), peer.Comparison{Default: peer.Shape})
			})
		}
	}
}
