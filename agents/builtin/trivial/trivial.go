// Package trivial is the smallest demonstration agent of PCP (pmdatrivial(1)). Its
// only metric, trivial.time, is the time in seconds since 1970. It shows what every
// agent has: a table of metrics with a function for each. Package simple also shows
// instances, stores and labels.
//
// C differs: pmdatrivial uses PMDA_INTERFACE_2, which has no labels, so it has the
// label "agent" only as a DSO.
package trivial

import (
	"context"
	_ "embed"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Domain is the number of trivial in PCP's list (stdpmid).
const Domain = 250

//go:embed help
var help string

// New returns the agent. The entry points TrivialInit (of the plugin) and
// trivial_init (in pmcd.conf) call it.
func New(domain int) (agents.Agent, error) {
	return pmda.New(pmda.Config{
		Name:   "trivial",
		Domain: domain,
		Help:   help,
		Metrics: []pmda.Metric{{
			Cluster: 0, Item: 0, Name: "trivial.time",
			Type: pdu.MetricU64, Sem: pdu.SemCounter, Units: pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0),
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetInt(time.Now().Unix())
				return nil
			},
		}},
	})
}
