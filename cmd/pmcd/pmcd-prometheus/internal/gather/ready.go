package gather

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/pdu/pmapi"
)

// statusMetric has a value for each agent, which is notReady for one that is starting or not
// ready.
const (
	statusMetric = "pmcd.agent.status"
	notReady     = 1
)

// Ready returns nil if pmcd answers and no agent is starting or not ready. An agent that has
// failed does not matter: it may never start. Ready asks no agent but pmcd's own, so it waits
// for none.
func (g *Gatherer) Ready(ctx context.Context) error {
	c, err := g.connect(ctx, &g.status)
	if err != nil {
		return err
	}
	starting, err := g.starting(ctx, c)
	if err != nil {
		return fmt.Errorf("%s: %w", statusMetric, err)
	}
	if len(starting) > 0 {
		return fmt.Errorf("agents that are not ready: %s", strings.Join(starting, ", "))
	}
	return nil
}

// starting returns the names of the agents that are not ready.
func (g *Gatherer) starting(ctx context.Context, c Client) (agents []string, err error) {
	ids, err := c.Lookup(ctx, statusMetric)
	if err != nil {
		return nil, err
	}
	descs, err := c.Descs(ctx, ids...)
	if err != nil {
		return nil, err
	}
	var r pmapi.Result
	if err := c.Fetch(ctx, ids, &r); err != nil {
		return nil, err
	}
	set := &r.Sets[0]
	if set.Err < 0 {
		return nil, set.Err
	}
	insts, err := c.Instances(ctx, descs[0].InDom)
	if err != nil {
		return nil, err
	}
	names := make(map[int32]string)
	for _, i := range insts {
		names[i.ID] = i.Name
	}
	for _, v := range set.Values {
		value, err := pmapi.Decode(set, v, descs[0].ValueType)
		if err != nil {
			return nil, err
		}
		if n, err := value.Int64(); err != nil || n != notReady {
			continue
		}
		name, ok := names[v.Inst]
		if !ok {
			name = strconv.Itoa(int(v.Inst))
		}
		agents = append(agents, name)
	}
	return agents, nil
}
