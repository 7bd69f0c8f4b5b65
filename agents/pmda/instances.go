package pmda

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Instances implements [agents.Instancer].
func (a *agent) Instances(ctx context.Context, o agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	d := a.indoms[indom]
	if d == nil {
		return nil, pdu.ErrnoInDom
	}
	return a.instances(ctx, d)
}

// instances returns the current instances of d.
func (a *agent) instances(ctx context.Context, d *InDom) ([]pdu.Inst, error) {
	if err := a.read(ctx, d.Source); err != nil {
		if a.req.ended != nil {
			return nil, a.req.ended
		}
		return nil, a.errno("instances of ", a.indom(d).String(), err)
	}
	var list []pdu.Inst
	d.Insts.Each(func(inst int32, name string, _ any) bool {
		list = append(list, pdu.Inst{ID: inst, Name: name})
		return a.req.Checkpoint() == nil
	})
	if err := a.req.err(); err != nil {
		return nil, err
	}
	return list, nil
}

// SpellInst implements [agents.InstSpeller].
func (a *agent) SpellInst(indom pdu.InDom, name string) string {
	if d := a.indoms[indom]; d != nil && d.Spell != nil {
		return d.Spell(name)
	}
	return name
}
