package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// slowArg, as the first argument, makes this program the slow agent; the second
// is how long it takes.
const slowArg = "slow-agent"

// largeBytes is the size of a value of slow.large.
const largeBytes = 10 << 20

// slowAgent is a PMDA whose metric slow.count takes its time, and slow.large much memory.
var slowAgent = serve.Program{
	Name: "slow", Domain: domainSlow, Usage: slowArg + " duration",
	CheckArgs: func(args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%d arguments", len(args))
		}
		_, err := time.ParseDuration(args[1])
		return err
	},
	New: func(s serve.Start) (agents.Agent, error) {
		delay, err := time.ParseDuration(s.Args[1])
		if err != nil {
			return nil, err
		}
		count, large := int64(0), strings.Repeat("x", largeBytes)
		return pmda.New(pmda.Config{
			Name: "slow", Domain: s.Domain,
			Metrics: []pmda.Metric{{
				Cluster: 0, Item: 0, Name: "slow.count",
				Type: pdu.MetricU32, Sem: pdu.SemCounter, Units: pdu.NewUnits(0, 0, 1, 0, 0, 0),
				Fetch: func(_ context.Context, v *pmda.Value) error {
					time.Sleep(delay)
					count++
					v.SetInt(count)
					return nil
				},
			}, {
				Cluster: 0, Item: 1, Name: "slow.large", Type: pdu.MetricString, Sem: pdu.SemInstant,
				Fetch: func(_ context.Context, v *pmda.Value) error { v.SetString(large); return nil },
			}},
		})
	},
}
