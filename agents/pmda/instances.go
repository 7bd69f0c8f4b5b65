package pmda

import (
	"context"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Instances implements [agents.Instancer].
func (a *agent) Instances(ctx context.Context, o agents.Origin, indom pdu.InDom) (list []pdu.Inst, err error) {
	err = a.withInDom(ctx, o, indom, func(d *InDom) (err error) {
		list, err = a.instances(ctx, d)
		return err
	})
	return list, err
}

// InstName implements [agents.InstNamer].
func (a *agent) InstName(ctx context.Context, o agents.Origin, indom pdu.InDom, inst int32) (name string, err error) {
	err = a.withInDom(ctx, o, indom, func(d *InDom) error {
		if err := a.readInstances(ctx, d); err != nil {
			return err
		}
		ok := false
		if f, isFinder := d.Insts.(Finder); isFinder {
			name, _, ok = f.Find(inst)
		} else {
			d.Insts.Each(func(i int32, n string, _ any) bool {
				if i == inst {
					name, ok = n, true
				}
				return !ok && a.req.Err() == nil
			})
		}
		if err := a.req.err(); err != nil {
			return err
		}
		if !ok {
			return pdu.ErrnoInst
		}
		return nil
	})
	return name, err
}

// withInDom calls f with an instance domain, in a request of its own.
func (a *agent) withInDom(ctx context.Context, o agents.Origin, indom pdu.InDom, f func(d *InDom) error) error {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return err
	}
	defer a.end(r)
	d := a.indoms[indom]
	if d == nil {
		return pdu.ErrnoInDom
	}
	return f(d)
}

func (a *agent) readInstances(ctx context.Context, d *InDom) error {
	err := a.read(ctx, d.Source)
	if err != nil {
		if a.req.ended != nil {
			return a.req.ended
		}
		err = a.errno("instances of ", a.indom(d).String(), err)
	}
	return err
}

// instances returns the current instances of d.
func (a *agent) instances(ctx context.Context, d *InDom) ([]pdu.Inst, error) {
	if err := a.readInstances(ctx, d); err != nil {
		return nil, err
	}
	var list []pdu.Inst
	d.Insts.Each(func(inst int32, name string, _ any) bool {
		list = append(list, pdu.Inst{ID: inst, Name: name})
		return a.req.Err() == nil
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

// checkInsts checks Instances as far as that is possible before the first request.
func checkInsts(insts Instances, id pdu.InDom) error {
	switch insts := insts.(type) {
	case interface{ InDom() pdu.InDom }: // a cache.Cache; the InDom is the name of its file
		if other := insts.InDom(); other != id {
			return fmt.Errorf("the cache in Insts is of instance domain %v, not %v", other, id)
		}
	case List:
		ids, names := make(map[int32]bool), make(map[string]bool)
		for _, i := range insts {
			name, _, _ := strings.Cut(i.Name, " ")
			if i.ID < 0 || ids[i.ID] || name == "" || names[name] {
				return fmt.Errorf("instance %d %q: the id is negative, the name is empty, or one of them is used twice", i.ID, i.Name)
			}
			ids[i.ID], names[name] = true, true
		}
	}
	return nil
}
