package serve_test

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// A clock is an agent with one metric, the time in seconds.
type clock struct{ id pdu.PMID }

func (c clock) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != c.id {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU64, InDom: pdu.NoInDom, Sem: pdu.SemCounter,
		Units: pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0)}, nil
}

func (c clock) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != c.id {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Uint64(pdu.NoInst, pdu.MetricU64, uint64(time.Now().Unix()))
	}
	return nil
}

// This is a complete PMDA. Its line in pmcd.conf is, for example:
//
//	clock 250 pipe binary /usr/local/bin/pmdaclock -d 250
func ExampleMain() {
	serve.Main(serve.Program{
		Name:   "pmdaclock",
		Domain: 250,
		Log:    "clock.log",
		New: func(s serve.Start) (agents.Agent, error) {
			return clock{pdu.NewPMID(s.Domain, 0, 0)}, nil
		},
	})
}
