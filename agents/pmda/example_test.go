package pmda_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A queue is a queue of the monitored program.
type queue struct {
	length  int
	handled uint64
	longest time.Duration
}

// This agent has two metrics with a value for each queue, and a metric that clients
// can store into.
func ExampleNew() {
	queues := []queue{{length: 3, handled: 1200, longest: time.Second}, {length: 0, handled: 7}}
	limit := uint32(100)

	indom := &pmda.InDom{
		Serial:  0,
		Insts:   pmda.List{{ID: 0, Name: "mail"}, {ID: 1, Name: "print"}},
		OneLine: "the queues",
	}
	newAgent := func(domain int) (agents.Agent, error) {
		return pmda.New(pmda.Config{
			Name:   "queues",
			Domain: domain,
			Metrics: []pmda.Metric{{
				Cluster: 0, Item: 0, Name: "queues.length", InDom: indom,
				Type: pdu.MetricU32, Sem: pdu.SemInstant, Units: pdu.Count,
				OneLine: "number of jobs in the queue",
				Fetch: func(_ context.Context, v *pmda.Value) error {
					v.SetInt(int64(queues[v.Index()].length))
					return nil
				},
			}, {
				Cluster: 0, Item: 1, Name: "queues.handled", InDom: indom,
				Type: pdu.MetricU64, Sem: pdu.SemCounter, Units: pdu.Count,
				OneLine: "number of jobs that have been processed",
				Fetch: func(_ context.Context, v *pmda.Value) error {
					v.SetUint(queues[v.Index()].handled)
					return nil
				},
			}, {
				Cluster: 1, Item: 0, Name: "queues.limit",
				Type: pdu.MetricU32, Sem: pdu.SemDiscrete,
				OneLine: "maximum length of a queue",
				Fetch: func(_ context.Context, v *pmda.Value) error {
					v.SetUint(uint64(limit))
					return nil
				},
				Store: func(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
					for _, v := range s.Values {
						n, err := v.AsUint32()
						if err != nil {
							return err
						}
						limit = n
					}
					return nil
				},
			}},
			Labels: pmda.Labels{"service": "queues"},
			Log:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}

	a, err := newAgent(400) // pmcd does this and the following
	if err != nil {
		fmt.Println(err)
		return
	}
	var r pdu.Result
	ask := []pdu.PMID{pdu.NewPMID(400, 0, 0), pdu.NewPMID(400, 1, 0)}
	if err := agenttest.Do(a, agents.Origin{}, &pdu.Fetch{PMIDs: ask}, &r); err != nil {
		fmt.Println(err)
	}
	for _, set := range r.Sets {
		for _, v := range set.Values {
			fmt.Println(set.PMID, v.Inst, v.Word)
		}
	}
	// Output:
	// 400.0.0 0 3
	// 400.0.0 1 0
	// 400.1.0 -1 100
}
