package peertest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// BenchmarkKinds is a fetch of one metric of the simple agent through a whole
// daemon, for each way to have the agent. It measures what PMCD_UNDER_TEST
// names; without, the daemon has the race detector, which says little.
func BenchmarkKinds(b *testing.B) {
	peer.Require(b)
	if os.Getenv("PMCD_UNDER_TEST") == "" {
		b.Log("PMCD_UNDER_TEST is not set")
	}
	ours, err := peer.UnderTest()
	if err != nil {
		b.Fatal(err)
	}
	program, err := peer.SimplePMDA()
	if err != nil {
		b.Fatal(err)
	}
	dso, err := peer.SimpleDSO()
	if err != nil {
		b.Fatal(err)
	}
	pipe := fmt.Sprintf("simple %d pipe binary %s -d %[1]d -l {dir}/simple.log", peer.DomainSimple, program)
	object := fmt.Sprintf("simple %d dso simple_init %s", peer.DomainSimple, dso)
	for _, bb := range []struct{ name, pmcd, agent string }{
		{"in-process", ours, fmt.Sprintf("simple %d dso simple_init /nonexistent", peer.DomainSimple)},
		{"host", ours, object},
		{"pipe", ours, pipe},
		{"C-in-process", peer.CPmcd, object},
		{"C-pipe", peer.CPmcd, pipe},
	} {
		b.Run(bb.name, func(b *testing.B) {
			d := peer.StartT(b, bb.pmcd, peer.Config{Agents: []string{
				fmt.Sprintf("pmcd %d dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so", peer.DomainPmcd), bb.agent,
			}})
			client, err := pmapi.Dial(b.Context(), d.Host(peer.Unix), pmapi.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			ids := []pdu.PMID{pdu.NewPMID(peer.DomainSimple, 0, 0)}
			var r pmapi.Result
			fetch := func() {
				if err := client.Fetch(context.Background(), ids, &r); err != nil {
					b.Fatal(err)
				}
			}
			if fetch(); len(r.Sets[0].Values) != 1 {
				b.Fatalf("%+v", r.Sets)
			}
			for b.Loop() {
				fetch()
			}
		})
	}
}
