package transport_test

import (
	"context"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// stepAgent is an Agent that reports the client of each call, and replies when it is told to.
type stepAgent struct {
	answer
	asks  chan int32
	reply chan struct{}
}

func (a *stepAgent) Desc(_ context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.asks <- o.Client
	<-a.reply
	return pdu.Desc{PMID: id}, nil
}

// Clients take turns at an agent in this process.
func TestWorkerTurns(t *testing.T) {
	transporttest.TestTurns(t, func(t *testing.T) transporttest.StepAgent {
		a := &stepAgent{asks: make(chan int32), reply: make(chan struct{})}
		return transporttest.StepAgent{
			Transport:  local(t, a),
			Next:       func() int32 { return <-a.asks },
			Reply:      func() { a.reply <- struct{}{} },
			Eventually: testutil.Eventually,
		}
	})
}
