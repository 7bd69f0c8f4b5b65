package session

import (
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// At the end of pmcd, sessions leave requests that have arrived.
func TestAbortLeavesRequests(t *testing.T) {
	desc := &pdu.DescReq{PMID: pdu.NewPMID(240, 0, 1)}
	s, c := newTurn(t, new(transporttest.Place), routes.New(nil, new(pmnsload.Tree)), desc, desc, desc)
	c.onWrite = s.srv.Abort
	s.srv.turnPool.Serve(s)
	if n := len(c.replies); n != 1 {
		t.Errorf("%d replies, want 1: that during which pmcd began to end", n)
	}
}

// Nor do they ask agents for the rest of a request.
func TestAbortLeavesAgents(t *testing.T) {
	agent := &seriesTransport{Worker: transport.Local(new(namer)), each: 2 * seriesSlice}
	table := startTransport(t, 240, func() transport.Transport { return agent }, dynamicTree(t))
	<-table.Agent(240).Started()
	s, c := newTurn(t, new(transporttest.Place), table, &pdu.PMNSNames{Names: []string{"d.1", "d.2", "d.3"}})
	agent.answer = func(req []byte) pdu.Message {
		s.srv.Abort()
		return answerName(req)
	}
	s.srv.turnPool.Serve(s)
	<-c.replies
	if want := []int{1}; !slices.Equal(agent.calls, want) {
		t.Errorf("the agent was asked for %d names, want %d", agent.calls, want)
	}
}
