package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Difference is what is not the same.
type Difference struct {
	Name     string `json:"name"` // of a metric, or of what else differs
	Instance string `json:"instance,omitempty"`
	What     string `json:"what"` // see What
	A        string `json:"a"`
	B        string `json:"b"`
	Why      string `json:"why,omitempty"` // of a known one: where the documentation has it
}

// What kinds of differences there are.
const (
	isName      = "name"
	isError     = "error"
	isType      = "type"
	isSemantics = "semantics"
	isUnits     = "units"
	isInDom     = "domain"
	isPMID      = "PMID"
	isText      = "text"
	isLabels    = "labels"
	isInstances = "instances"
	isNumber    = "number"
	isValue     = "value"
	isRate      = "rate"
	isReset     = "reset"
	isGaps      = "gaps"
	isTime      = "time"
	isCost      = "cost"
	isRestarts  = "restarts"
)

// A Report is the result of a comparison.
type Report struct {
	A        string `json:"a"` // hosts
	B        string `json:"b"`
	Together bool   `json:"together"` // the values are of the same time
	Metrics  int    `json:"metrics"`  // that both have
	Values   int    `json:"values"`   // that both have
	// Differences count. Known ones are deliberate and do not.
	Differences []Difference `json:"differences"`
	Known       []Difference `json:"known"`
	// Skipped is what could not be compared: the names, by the reason.
	Skipped map[string][]string `json:"skipped"`
	Cost    [2]*Cost            `json:"cost"` // of A and B
}

// A Cost is what a pmcd and its agents need.
type Cost struct {
	Answer int64   `json:"answer_us"` // to fetch all metrics of a snapshot
	CPU    float64 `json:"cpu,omitempty"`
	Memory int64   `json:"memory_kb,omitempty"`
}

// Reasons for which something could not be compared.
const (
	moves       = "the value changes"
	elsewhere   = "the values are of another time"
	ownAgent    = "each agent counts for itself"
	ownDaemon   = "each pmcd has its own"
	comeAndGo   = "instances come and go"
	noNumbers   = "the values are events or aggregates"
	noValue     = "neither has a value"
	observers   = "the processes of the two pmcds"
	otherAgents = "B does not have the agent"
	agentsEnded = "agents began or ended meanwhile"
	noProcess   = "the processes of pmcd are not known"
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
		c.indoms[i] = make(map[string]*InDom)
		for j := range s.InDoms {
			c.indoms[i][s.InDoms[j].ID] = &s.InDoms[j]
		}
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
	ofB := make(map[string]*Metric)
	for i := range c.b.Metrics {
		ofB[c.b.Metrics[i].Name] = &c.b.Metrics[i]
	}
	for i := range c.a.Metrics {
		x := &c.a.Metrics[i]
		y := ofB[x.Name]
		if domain, _, ok := strings.Cut(x.PMID, "."); ok && c.SameAgents && !c.agents[domain] {
			delete(ofB, x.Name)
			c.skip(x.Name, "", otherAgents)
			continue
		}
		if y == nil {
			c.add(x.Name, "", isName, "present", "absent")
			continue
		}
		delete(ofB, x.Name)
		c.r.Metrics++
		if c.descs(x, y) {
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
			c.add(x.Name, "", isError, orNone(x.Error), orNone(y.Error))
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

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// values compares the values of a metric.
func (c *comparer) values(x, y *Metric) {
	if x.Error != y.Error {
		if y.Error != "" || c.r.Together {
			c.add(x.Name, "", isError, orNone(x.Error), orNone(y.Error))
			return
		}
	}
	if ownNumbers.MatchString(x.Name) {
		c.skip(x.Name, "", ownDaemon)
		return
	}
	if momentary.MatchString(x.Name) {
		c.skip(x.Name, "", moves)
		return
	}
	if len(x.Values) == 0 && len(y.Values) == 0 {
		c.skip(x.Name, "", noValue)
		return
	}
	moving := x.InDom != "" && (c.moving(x.InDom) || processes(x.InDom))
	ofB := make(map[string]*Series)
	for i := range y.Values {
		ofB[y.Values[i].Instance] = &y.Values[i]
	}
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
	for _, s := range []*Snapshot{c.a, c.b} {
		if err == nil && processes(indom) && s.Daemon != nil && slices.ContainsFunc(s.Daemon.Processes, func(p Process) bool { return p.PID == pid }) {
			return true
		}
	}
	return false
}

// moving reports whether instances came or went in one of the snapshots.
func (c *comparer) moving(indom string) bool {
	for _, of := range c.indoms {
		if d := of[indom]; d != nil && d.Moving {
			return true
		}
	}
	return false
}

// has reports whether an instance was there all the time in a snapshot.
func (c *comparer) has(which int, indom, inst string) bool {
	d := c.indoms[which][indom]
	return d != nil && slices.ContainsFunc(d.Instances, func(i Instance) bool { return i.Name == inst })
}

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
			c.add(name, "", isError, orNone(x.Error), orNone(y.Error))
			continue
		case x.OneLine != y.OneLine:
			c.add(name, "", isText, x.OneLine, y.OneLine)
		}
		if processes(x.ID) || x.Moving || y.Moving {
			if len(x.Instances) > 0 && len(y.Instances) == 0 && !y.Moving {
				c.add(name, "", isInstances, fmt.Sprintf("%d", len(x.Instances)), "none")
				continue
			}
			c.skip(name, "", comeAndGo)
			continue
		}
		ids := make(map[string]int32)
		for _, inst := range y.Instances {
			ids[inst.Name] = inst.ID
		}
		var onlyA, onlyB []string
		for _, inst := range x.Instances {
			id, ok := ids[inst.Name]
			delete(ids, inst.Name)
			if !ok {
				onlyA = append(onlyA, inst.Name)
			} else if id != inst.ID {
				c.add(name, inst.Name, isNumber, fmt.Sprint(inst.ID), fmt.Sprint(id))
			}
		}
		onlyB = slices.Sorted(maps.Keys(ids))
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
	for _, of := range slices.Sorted(maps.Keys(c.a.Labels)) {
		if b, ok := c.b.Labels[of]; ok && b != c.a.Labels[of] || !ok && c.exists(of) {
			c.add(of, "", isLabels, c.a.Labels[of], orNone(b))
		}
	}
	if !c.r.Together {
		return
	}
	for _, of := range slices.Sorted(maps.Keys(c.b.Labels)) {
		if _, ok := c.a.Labels[of]; !ok && c.exists(of) {
			c.add(of, "", isLabels, "-", c.b.Labels[of])
		}
	}
}

// exists reports whether both snapshots have what the label called of belongs to.
func (c *comparer) exists(of string) bool {
	if indom, inst, ok := strings.Cut(strings.TrimPrefix(of, "instance "), "["); ok && strings.HasPrefix(of, "instance ") {
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
