package session

import (
	"context"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// At the end of pmcd, sessions leave requests that have arrived.
func TestAbortLeavesRequests(t *testing.T) {
	desc := &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}
	s, c := withInput(t, routes.New(nil, new(pmnsload.Tree)), desc, desc, desc)
	c.onWrite = s.srv.Abort
	s.srv.coroutines.Serve(s)
	if n := len(c.replies); n != 1 {
		t.Errorf("%d replies, want 1: that during which pmcd began to end", n)
	}
}

// Nor do they ask agents for the rest of a request.
func TestAbortLeavesAgents(t *testing.T) {
	agent := &seriesTransport{Worker: transport.Local(new(agentsettest.Namer)), each: 2 * calls.MaxBatchTime}
	table := agentsettest.StartTransport(t, 240, func() transport.Transport { return agent }, dynamicTree(t))
	<-table.Agent(240).Started()
	s, c := withInput(t, table, &pdu.PMNSNames{Names: []string{"d.1", "d.2", "d.3"}})
	agent.answer = func(req []byte) pdu.Message {
		s.srv.Abort()
		return answerName(req)
	}
	s.srv.coroutines.Serve(s)
	<-c.replies
	if want := []int{1}; !slices.Equal(agent.calls, want) {
		t.Errorf("the agent was asked for %d names, want %d", agent.calls, want)
	}
}

// A blockAgent has the same value of all metrics.
type blockAgent struct {
	agents.Agent // nil: its other methods are not called
	block        []byte
}

func (a *blockAgent) Fetch(_ context.Context, req *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range req.PMIDs {
		w.Begin(id)
		w.Block(pdu.NoInst, pdu.MetricString, a.block)
	}
	return nil
}
