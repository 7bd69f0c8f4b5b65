package openmetrics

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Instances implements [agents.Instancer]. They are all that have ever been: their numbers never
// change. The instance domains below 4096 are the tables of names: of sources, and of metrics.
func (a *agent) Instances(ctx context.Context, _ agents.Origin, id pdu.InDom) ([]pdu.Inst, error) {
	t, unlock := a.table(id)
	if t == nil {
		return nil, pdu.ErrnoInDom
	}
	defer unlock()
	list := make([]pdu.Inst, t.known)
	for i := range list {
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		list[i] = pdu.Inst{ID: int32(i), Name: t.instName(i)}
	}
	return list, nil
}

// InstName implements [agents.InstNamer].
func (a *agent) InstName(_ context.Context, _ agents.Origin, id pdu.InDom, inst int32) (string, error) {
	t, unlock := a.table(id)
	if t == nil {
		return "", pdu.ErrnoInDom
	}
	defer unlock()
	if inst < 0 || int(inst) >= t.known {
		return "", pdu.ErrnoInst
	}
	return t.instName(int(inst)), nil
}

// table returns the table of an instance domain, and a function that unlocks its source; nil if there
// is none.
func (a *agent) table(id pdu.InDom) (t *table, unlock func()) {
	n := id.Serial()
	switch {
	case id.Domain() != a.domain:
	case n == 0:
		return a.clusters, func() {}
	case n <= maxSources:
		if s := a.byCluster[n]; s != nil {
			s.mu.Lock()
			return s.items, s.mu.Unlock
		}
	default:
		n -= maxSources + 1
		s, m, err := a.metric(pdu.NewPMID(a.domain, n/maxItems, n%maxItems))
		if err != nil {
			break
		}
		if m.insts != nil {
			return m.insts, s.mu.Unlock
		}
		s.mu.Unlock()
	}
	return nil, nil
}
