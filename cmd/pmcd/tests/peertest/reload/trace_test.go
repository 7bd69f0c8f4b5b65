package reload

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// events are those of the dump in the log, normalised.
func events(t *testing.T, d *peer.Daemon) []string {
	t.Helper()
	var text string
	if !peer.Until(peer.Hangs, func() bool {
		_, text, _ = strings.Cut(d.Log(), "->PMCD event trace")
		return strings.Contains(text, "\n\n") // the end
	}) {
		t.Fatalf("%s: no trace", d.Path)
	}
	var all []string
	for _, l := range strings.Split(text, "\n") {
		if !strings.HasPrefix(l, "->") {
			continue
		}
		for _, n := range []struct{ re, to string }{
			{`^->([\d:]{8}| {8}) `, ""},
			{`fd=\d+`, "fd=N"},
			{`, pdubuf=0x.*`, ""},
			{`(err=-?\d+): .*`, "$1"},
			{`New client: \[\d+\] addr=\S+, `, "New client: "},
			{`seq=\d+`, "seq=N"},
			// C pmcd has the type of the request for the reply to a fetch, and
			// 6.0.3 no number of metrics there.
			{`^Xmit: (HIGHRES_)?(FETCH|RESULT|DESCS) PDU.*`, "Xmit: values"},
			{`^Xmit: TEXT PDU, fd=N.*`, "Xmit: TEXT"}, // the id is the agent's, in whatever order
		} {
			l = regexp.MustCompile(n.re).ReplaceAllString(l, n.to)
		}
		switch {
		case strings.HasPrefix(l, "Xmit: ATTR"): // C pmcd does not trace them
		case strings.HasPrefix(l, "Xmit: PROFILE"): // it sends more of them
		case l == "Recv: CREDS PDU, fd=N" && all[len(all)-1] == l: // and these twice
		default:
			all = append(all, l)
		}
	}
	return all
}

// The trace of the same requests has the same events in both daemons.
func TestPeerTrace(t *testing.T) {
	testutil.NeedRoot(t) // to have a trace dumped
	p := startPair(t, "-T", "3")
	id := pdu.NewPMID
	requests := []pdu.Message{
		&pdu.Fetch{PMIDs: []pdu.PMID{simpleID, id(2, 0, 7), id(253, 0, 1)}},
		&pdu.HighResFetch{PMIDs: []pdu.PMID{simpleID}},
		&pdu.HighResFetch{PMIDs: []pdu.PMID{id(2, 0, 7)}},
		&pdu.DescReq{PMID: simpleID},
		&pdu.DescReq{PMID: id(253, 0, 99)},
		&pdu.DescReq{PMID: id(2, 0, 7)},
		&pdu.DescIDs{PMIDs: []pdu.PMID{simpleID, id(2, 0, 7)}},
		&pdu.InstanceReq{InDom: pdu.NewInDom(253, 0), Inst: -1},
		&pdu.TextReq{Ident: uint32(simpleID), Kind: pdu.TextPMID | pdu.TextOneLine},
		&pdu.PMNSNames{Names: []string{"simple.numfetch"}},
		&pdu.PMNSNames{Names: []string{"no.such"}},
		&pdu.PMNSIDs{PMIDs: []pdu.PMID{simpleID}},
		&pdu.PMNSChild{Name: "simple"},
		&pdu.PMNSTraverse{Name: "simple"},
		&pdu.LabelReq{Ident: 0xffffffff, Kind: pdu.LabelContext},
		&pdu.LabelReq{Ident: uint32(simpleID), Kind: pdu.LabelItem},
		&pdu.Result{Sets: []pdu.ValueSet{{PMID: simpleID, Values: []pdu.Value{{Inst: -1, Word: 1}}}}},
	}
	var got [2][]string
	for i, d := range p.daemons {
		raw := handshake(t, d)
		do := func(c *pdutest.Client, m pdu.Message) {
			t.Helper()
			if _, err := c.Do(m); err != nil {
				t.Fatal(err)
			}
		}
		do(raw, &pdu.Fetch{PMIDs: []pdu.PMID{simpleID}}) // the state changes so far are new to it
		c := p.clients[i]
		c.control(t, 11, 300) // tracebufs; empties the ring
		for _, m := range requests {
			do(raw, m)
		}
		do(handshake(t, d), &pdu.DescReq{PMID: simpleID})
		c.control(t, 12, 1) // dumptrace
		got[i] = events(t, d)
	}
	if c, ours := got[0], got[1]; !slices.Equal(c, ours) {
		t.Errorf("PCP's pmcd:\n%s\n--- ours:\n%s", strings.Join(c, "\n"), strings.Join(ours, "\n"))
	}
}
