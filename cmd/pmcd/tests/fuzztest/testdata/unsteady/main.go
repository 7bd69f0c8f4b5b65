// A Go plugin that panics in some requests.
package main

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

type agent struct{}

func (agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

// Fetch panics if the item of a PMID is odd.
func (agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id.Item()%2 == 1 {
			var none map[string]int
			none["x"] = 1
		}
		w.Begin(id)
		w.Word(pdu.NoInst, uint32(id))
	}
	return nil
}

func NewAgent(int) (agents.Agent, error) { return agent{}, nil }

func main() {}
