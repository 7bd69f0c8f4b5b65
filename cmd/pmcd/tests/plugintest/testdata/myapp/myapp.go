// Package myapp is an agent with one metric.
package myapp

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

func New(domain int) (agents.Agent, error) {
	return pmda.New(pmda.Config{
		Name:   "myapp",
		Domain: domain,
		Metrics: []pmda.Metric{{
			Cluster: 0, Item: 1, Name: "myapp.answer",
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetUint(42)
				return nil
			},
		}},
	})
}
