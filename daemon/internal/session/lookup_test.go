package session

import (
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// answerDesc replies with a descriptor, except for item 0.
func answerDesc(req []byte) pdu.Message {
	var m pdu.DescReq
	if _, err := pdu.ParseInto(req, &m); err != nil || m.PMID.Item() == 0 {
		return &pdu.Error{Code: pdu.ErrnoPMID}
	}
	return &pdu.Desc{PMID: m.PMID}
}

// The descriptors of one request are asked for in few turns, each of which is short.
func TestTurnsOfDescs(t *testing.T) {
	const domain = 240
	var ids []pdu.PMID
	for item := range 300 {
		ids = append(ids, pdu.NewPMID(domain, 0, item))
	}
	for _, tt := range []struct {
		name  string
		ids   []pdu.PMID
		each  time.Duration
		fails int
		calls []int
		known int // descriptors in the reply
	}{
		{"a quick agent", ids, 0, 0, []int{1, 128, 128, 43}, 299},
		{"an agent that takes 0.1 ms", ids[:100], calls.MaxBatchTime / 40, 0, []int{1, 40, 40, 19}, 99},
		{"a slow agent", ids[:5], 2 * calls.MaxBatchTime, 0, []int{1, 1, 1, 1, 1}, 4},
		{"the same metrics many times", slices.Repeat(ids[:3], 100), 0, 0, []int{1, 2}, 200},
		{"an agent that is late", ids, 0, 3, []int{1, 128, 128}, 128},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent := &seriesTransport{Worker: transport.Local(new(agentsettest.Namer)), answer: answerDesc, each: tt.each, fails: tt.fails}
			table := agentsettest.StartTransport(t, domain, func() transport.Transport { return agent }, new(pmnsload.Tree))
			<-table.Agent(domain).Started()
			s, c := withInput(t, table, &pdu.DescIDs{PMIDs: tt.ids})
			s.srv.coroutines.Serve(s)
			var m pdu.Descs
			if _, err := pdu.ParseInto(<-c.replies, &m); err != nil {
				t.Fatal(err)
			}
			known := 0
			for i, d := range m.Descs {
				switch d.PMID {
				case pdu.NoPMID:
				case tt.ids[i]:
					known++
				default:
					t.Errorf("descriptor %d is of %v, want %v", i, d.PMID, tt.ids[i])
				}
			}
			if len(m.Descs) != len(tt.ids) || known != tt.known {
				t.Errorf("%d descriptors, of which %d are not empty; want %d and %d", len(m.Descs), known, len(tt.ids), tt.known)
			}
			if !slices.Equal(agent.calls, tt.calls) {
				t.Errorf("the agent was asked for %d descriptors, want %d", agent.calls, tt.calls)
			}
		})
	}
}
