package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// processes reports whether the instances of a domain are processes, control groups or
// clients, which are others at another time.
func processes(indom string) bool { return strings.HasPrefix(indom, "3.") || indom == clients }

// Instance domains of pmcd: of its clients, and of its agents by their domains.
const (
	clients     = "2.6"
	agentsInDom = "2.3"
)

// compareInDoms compares the instances of domains.
func (c *comparer) compareInDoms() {
	for i := range c.a.InDoms {
		x := &c.a.InDoms[i]
		y := c.indoms[1][x.ID]
		name := "instance domain " + x.ID
		switch {
		case y == nil: // its metrics are missing
			continue
		case x.Error != y.Error:
			c.add(name, "", isError, cmp.Or(x.Error, "-"), cmp.Or(y.Error, "-"))
			continue
		case x.OneLine != y.OneLine:
			c.add(name, "", isText, x.OneLine, y.OneLine)
		}
		if processes(x.ID) || x.Moving || y.Moving {
			if len(x.Instances) > 0 && len(y.Instances) == 0 && !y.Moving {
				c.add(name, "", isInstances, fmt.Sprint(len(x.Instances)), "none")
				continue
			}
			c.skip(name, "", comeAndGo)
			continue
		}
		ids := make(map[string]int32)
		for _, inst := range y.Instances {
			ids[inst.Name] = inst.ID
		}
		var onlyA []string
		for _, inst := range x.Instances {
			id, ok := ids[inst.Name]
			delete(ids, inst.Name)
			if !ok {
				onlyA = append(onlyA, inst.Name)
			} else if id != inst.ID {
				c.add(name, inst.Name, isNumber, fmt.Sprint(inst.ID), fmt.Sprint(id))
			}
		}
		onlyB := slices.Sorted(maps.Keys(ids))
		if len(onlyA) > 0 || len(onlyB) > 0 && c.r.Together {
			c.add(name, "", isInstances, only(onlyA), only(onlyB))
		}
	}
}

// only returns the text for instances that only one has.
func only(insts []string) string {
	const few = 3
	switch n := len(insts); {
	case n == 0:
		return "-"
	case n > few:
		return fmt.Sprintf("also %s and %d more", strings.Join(insts[:few], ", "), n-few)
	}
	return "also " + strings.Join(insts, ", ")
}

// labels compares labels.
func (c *comparer) labels() {
	all := make(map[string]string)
	maps.Copy(all, c.a.Labels)
	maps.Copy(all, c.b.Labels)
	for _, of := range slices.Sorted(maps.Keys(all)) {
		a, inA := c.a.Labels[of]
		b, inB := c.b.Labels[of]
		if a != b && (inA && inB || c.exists(of) && (inA || c.r.Together)) {
			c.add(of, "", isLabels, cmp.Or(a, "-"), cmp.Or(b, "-"))
		}
	}
}

// exists reports whether both snapshots have what the label called of belongs to.
func (c *comparer) exists(of string) bool {
	inst, ok := strings.CutPrefix(of, "instance ")
	if indom, inst, has := strings.Cut(inst, "["); ok && has {
		inst = strings.TrimSuffix(inst, "]")
		return c.has(0, indom, inst) && c.has(1, indom, inst)
	}
	return c.labelled[0][of] && c.labelled[1][of]
}

// labelled returns what of a snapshot can have labels, except for instances.
func labelled(s *Snapshot) map[string]bool {
	all := map[string]bool{"host": true}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.PMID == "" {
			continue
		}
		domain, rest, _ := strings.Cut(m.PMID, ".")
		cluster, _, _ := strings.Cut(rest, ".")
		all[m.Name], all["domain "+domain], all["cluster "+domain+"."+cluster], all["instance domain "+m.InDom] = true, true, true, true
	}
	return all
}
