package pmapi

import (
	"context"

	"github.com/gopcp/pmcd/pdu"
)

// A domain has the instances of an instance domain whose values a Group has.
type domain struct {
	names  map[int32]string
	before map[int32]string // names at the fetch before
	asked  int              // the number of the fetch that has asked for names
}

func (g *Group) nameOf(d pdu.InDom, inst int32) string {
	if known := g.domains[d]; known != nil {
		return known.names[inst]
	}
	return ""
}

// nameInstances asks for the names of the instances of which there are values, and compares them
// with those before. If an agent does not tell the names, those before are used. libpcp differs:
// it asks only if there is a value of an instance that it does not know.
func (g *Group) nameInstances(ctx context.Context) error {
	g.fetches++
	for n, i := range g.items {
		if !i.hasInstances() {
			continue
		}
		d := g.domains[i.desc.InDom]
		if d == nil {
			d = new(domain)
			g.domains[i.desc.InDom] = d
		}
		if d.asked != g.fetches {
			insts, err := g.c.names(ctx, i.desc.InDom, g.only(n))
			if isNoAnswer(err) {
				return err
			}
			d.asked = g.fetches
			d.update(insts, err)
		}
		if err := i.checkNames(ctx, g.c, d); err != nil {
			return err
		}
	}
	return nil
}

// hasInstances reports whether the last fetch had values of i that belong to instances.
func (i *Item) hasInstances() bool { return len(i.insts) > 0 && i.desc.InDom != pdu.NoInDom }

// only returns the instance of item n if that and those after it have values of no other instance
// of the domain, or [pdu.NoInst].
func (g *Group) only(n int) int32 {
	first := g.items[n]
	for _, i := range g.items[n:] {
		if i.hasInstances() && i.desc.InDom == first.desc.InDom && (i.all || i.inst != first.inst) {
			return pdu.NoInst
		}
	}
	return first.inst
}

// names returns an instance of a domain, or all if inst is [pdu.NoInst].
func (c *Client) names(ctx context.Context, d pdu.InDom, inst int32) ([]pdu.Inst, error) {
	if inst == pdu.NoInst {
		return c.Instances(ctx, d)
	}
	name, err := c.InstanceName(ctx, d, inst)
	return []pdu.Inst{{ID: inst, Name: name}}, err
}

// update replaces the names, unless the agent has answered with an error.
func (d *domain) update(insts []pdu.Inst, err error) {
	if d.before = d.names; err != nil {
		return
	}
	d.names = make(map[int32]string, len(insts))
	for _, inst := range insts {
		d.names[inst.ID] = inst.Name
	}
}

// checkNames makes values of instances that have other names than before begin anew. The value
// of a variable for one instance is an error if the name is that of another one.
func (i *Item) checkNames(ctx context.Context, c *Client, d *domain) error {
	for n := range i.insts {
		inst := &i.insts[n]
		name, ok := d.names[inst.id]
		before, known := d.before[inst.id]
		if ok && known && name != before && i.isRate() {
			*inst = instance{id: inst.id, err: pdu.ErrnoAgain}
		}
		if i.all || !ok || name == i.opts.Instance {
			continue
		}
		// The wanted name may be a part of the name.
		id, err := c.InstanceID(ctx, i.desc.InDom, i.opts.Instance)
		switch {
		case isNoAnswer(err):
			return err
		case err == nil && id != inst.id:
			err = i.fail(pdu.ErrnoInst) // the next fetch has the other number
		}
		if err != nil {
			i.err = err
			i.stale()
		}
	}
	return nil
}

// isNoAnswer reports whether err is not that of an agent or of pmcd for a request.
func isNoAnswer(err error) bool { return err != nil && (!isAnswer(err) || isConnError(err)) }
