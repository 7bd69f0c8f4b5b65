package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A comparer compares two snapshots.
type comparer struct {
	a, b *Snapshot
	Rules
	r        *Report
	indoms   [2]map[string]*InDom
	labelled [2]map[string]bool
	agents   map[string]bool // domains of B's agents, also of one that has failed
}

// Rules say what a comparison lets pass.
type Rules struct {
	Tolerance  float64 // of numbers: the part of the larger one by which they may differ
	SameAgents bool    // metrics whose agent B does not have are not compared
}

// Compare compares two snapshots.
func Compare(a, b *Snapshot, rules Rules) *Report {
	c := &comparer{a: a, b: b, Rules: rules, agents: make(map[string]bool)}
	for _, agent := range b.Agents {
		c.agents[strconv.Itoa(agent.Domain)] = true
	}
	c.r = &Report{A: a.Host, B: b.Host, Together: a.Begin.Before(b.End) && b.Begin.Before(a.End),
		Differences: []Difference{}, Known: []Difference{}, Skipped: make(map[string][]string)}
	for i, s := range []*Snapshot{a, b} {
		c.labelled[i] = labelled(s)
		c.indoms[i] = index(s.InDoms, func(d *InDom) string { return d.ID })
	}
	if d := c.indoms[1][agentsInDom]; d != nil {
		for _, inst := range d.Instances {
			c.agents[strconv.Itoa(int(inst.ID))] = true
		}
	}
	c.metrics()
	c.compareInDoms()
	c.labels()
	c.cost()
	return c.r
}

// index returns a list as a map.
func index[K comparable, V any](list []V, key func(*V) K) map[K]*V {
	m := make(map[K]*V, len(list))
	for i := range list {
		m[key(&list[i])] = &list[i]
	}
	return m
}

func (c *comparer) add(name, inst, what, a, b string) {
	if c.SameAgents && ofAgents.MatchString(name) {
		c.skip(name, inst, otherAgents)
		return
	}
	d := Difference{Name: name, Instance: inst, What: what, A: a, B: b}
	if d.Why = known(&d); d.Why != "" {
		c.r.Known = append(c.r.Known, d)
	} else {
		c.r.Differences = append(c.r.Differences, d)
	}
}

func (c *comparer) skip(name, inst, why string) {
	if inst != "" {
		name += "[" + inst + "]"
	}
	c.r.Skipped[why] = append(c.r.Skipped[why], name)
}

// metrics compares the metrics.
func (c *comparer) metrics() {
	ofB := index(c.b.Metrics, func(m *Metric) string { return m.Name })
	for i := range c.a.Metrics {
		x := &c.a.Metrics[i]
		y := ofB[x.Name]
		delete(ofB, x.Name)
		if domain, _, ok := strings.Cut(x.PMID, "."); ok && c.SameAgents && !c.agents[domain] {
			c.skip(x.Name, "", otherAgents)
		} else if y == nil {
			c.add(x.Name, "", isName, "present", "absent")
		} else if c.r.Metrics++; c.descs(x, y) {
			c.values(x, y)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ofB)) {
		c.add(name, "", isName, "absent", "present")
	}
}

// descs compares what two metrics are, and reports whether their values can be compared.
func (c *comparer) descs(x, y *Metric) (same bool) {
	if x.PMID == "" || y.PMID == "" { // there is an error in place of the descriptor
		if x.Error != y.Error {
			c.add(x.Name, "", isError, cmp.Or(x.Error, "-"), cmp.Or(y.Error, "-"))
		}
		return false
	}
	same = true
	for _, d := range []struct{ what, a, b string }{
		{isType, x.Type, y.Type},
		{isSemantics, x.Semantics, y.Semantics},
		{isUnits, x.Units, y.Units},
		{isInDom, x.InDom, y.InDom},
		{isPMID, x.PMID, y.PMID},
	} {
		if d.a != d.b {
			same = false
			c.add(x.Name, "", d.what, d.a, d.b)
		}
	}
	switch {
	case x.OneLine != y.OneLine:
		c.add(x.Name, "", isText, x.OneLine, y.OneLine)
	case strings.TrimSpace(x.Help) != strings.TrimSpace(y.Help):
		c.add(x.Name, "", isText, x.Help, cmp.Or(y.Help, y.OneLine))
	}
	return same
}

// values compares the values of a metric.
func (c *comparer) values(x, y *Metric) {
	switch {
	case x.Error != y.Error && (y.Error != "" || c.r.Together):
		c.add(x.Name, "", isError, cmp.Or(x.Error, "-"), cmp.Or(y.Error, "-"))
		return
	case ownNumbers.MatchString(x.Name):
		c.skip(x.Name, "", ownDaemon)
		return
	case momentary.MatchString(x.Name):
		c.skip(x.Name, "", moves)
		return
	case len(x.Values) == 0 && len(y.Values) == 0:
		c.skip(x.Name, "", noValue)
		return
	}
	moving := x.InDom != "" && (c.moving(x.InDom) || processes(x.InDom))
	ofB := index(y.Values, func(s *Series) string { return s.Instance })
	both := 0
	for i := range x.Values {
		s := &x.Values[i]
		t := ofB[s.Instance]
		delete(ofB, s.Instance)
		switch {
		case t != nil:
			if both++; moving && c.observes(x.InDom, s.Instance) {
				c.skip(x.Name, s.Instance, observers)
				continue
			}
			c.series(x, s, t, moving)
		case moving:
			c.skip(x.Name, s.Instance, comeAndGo)
		case s.Samples == c.a.Samples && (x.InDom == "" || c.has(1, x.InDom, s.Instance)):
			c.add(x.Name, s.Instance, isValue, s.Last, "no value")
		}
	}
	for inst, t := range ofB {
		if c.r.Together && !moving && t.Samples == c.b.Samples && (x.InDom == "" || c.has(0, x.InDom, inst)) {
			c.add(x.Name, inst, isValue, "no value", t.Last)
		}
	}
	if c.r.Values += both; moving && both == 0 && len(x.Values) > 0 && len(y.Values) == 0 {
		c.add(x.Name, "", isValue, fmt.Sprintf("%d instances", len(x.Values)), "no value")
	}
}

// observes reports whether an instance is a process of one of the two pmcds, which works while
// its values are fetched. The name of a process begins with its number.
func (c *comparer) observes(indom, inst string) bool {
	number, _, _ := strings.Cut(inst, " ")
	pid, err := strconv.Atoi(number)
	of := func(d *Daemon) bool {
		return d != nil && slices.ContainsFunc(d.Processes, func(p Process) bool { return p.PID == pid })
	}
	return err == nil && processes(indom) && (of(c.a.Daemon) || of(c.b.Daemon))
}

// moving reports whether instances came or went in one of the snapshots.
func (c *comparer) moving(indom string) bool {
	return slices.ContainsFunc(c.indoms[:], func(of map[string]*InDom) bool { return of[indom] != nil && of[indom].Moving })
}

// has reports whether an instance was there all the time in a snapshot.
func (c *comparer) has(which int, indom, inst string) bool {
	d := c.indoms[which][indom]
	return d != nil && slices.ContainsFunc(d.Instances, func(i Instance) bool { return i.Name == inst })
}
