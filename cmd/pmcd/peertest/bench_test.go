package peertest

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
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
			conn, err := net.Dial("unix", d.Sock)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			r := pdu.NewReader(conn, 0)
			do := func(req []byte) []byte {
				if _, err := conn.Write(req); err != nil {
					b.Fatal(err)
				}
				reply, err := r.Next()
				if err != nil {
					b.Fatal(err)
				}
				return reply
			}
			if _, err := r.Next(); err != nil { // greeting
				b.Fatal(err)
			}
			hello, err := pdu.Append(nil, 1, &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}})
			if err == nil {
				hello, err = pdu.Append(hello, 1, &pdu.Profile{})
			}
			if err != nil {
				b.Fatal(err)
			}
			req, err := pdu.Append(nil, 1, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(peer.DomainSimple, 0, 0)}})
			if err != nil {
				b.Fatal(err)
			}
			_, m, err := pdu.Parse(do(append(hello, req...)))
			if res, ok := m.(*pdu.Result); err != nil || !ok || len(res.Sets) != 1 || len(res.Sets[0].Values) != 1 {
				b.Fatalf("reply %+v, %v", m, err)
			}
			for b.Loop() {
				do(req)
			}
		})
	}
}
