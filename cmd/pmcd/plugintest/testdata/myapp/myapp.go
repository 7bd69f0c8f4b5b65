// Package myapp is an agent with one metric.
package myapp

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

type agent struct{ id pdu.PMID }

func New(domain int) (agents.Agent, error) { return agent{pdu.NewPMID(domain, 0, 1)}, nil }

func (a agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != a.id {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != a.id {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(pdu.NoInst, 42)
	}
	return nil
}
