package pmda

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Subtree is metrics that come and go, with their names (pmdaDynamicPMNS(3)).
// In the PMNS its place is a dynamic root, PREFIX DOMAIN:*:*.
type Subtree struct {
	// Prefix is the name that all names start with, dots included: "hotproc".
	Prefix string

	// Source, if not nil, is read before names or metrics are looked up. It
	// calls Set if they have changed.
	Source *Source

	a       *agent
	metrics []Metric
}

// Set replaces the metrics of the subtree. Their Names are the Prefix, or begin
// with it and a dot. A metric with several names is there several times. If
// it fails nothing has changed; the error names all mistakes. Set is called
// before New, or by a function of the agent. The slice belongs to t then.
func (t *Subtree) Set(metrics []Metric) error {
	if t.a == nil {
		t.metrics = metrics
		return nil
	}
	old := t.metrics
	t.metrics = metrics
	if err := t.a.rebuild(); err != nil {
		t.metrics = old
		return err
	}
	t.a.changed |= pdu.StateNamesChange
	return nil
}

// join makes t a part of a.
func (t *Subtree) join(a *agent) error {
	if t.Prefix == "" {
		return errors.New("a subtree has no prefix")
	}
	t.a = a
	return a.rebuild()
}

// refreshNames has Subtrees see what is new.
func (a *agent) refreshNames(ctx context.Context) {
	for _, t := range a.conf.Subtrees {
		if err := a.read(ctx, t.Source); err != nil {
			a.warn("names below "+t.Prefix, err) // clients do not see it
		}
	}
}

// rebuild makes the tables anew from Config.Metrics and all Subtrees.
func (a *agent) rebuild() error {
	all := maps.Clone(a.fixed)
	names := new(tree)
	var errs []error
	for _, t := range a.conf.Subtrees {
		if t.a == nil {
			continue // its turn is still to come
		}
		for i := range t.metrics {
			row := &t.metrics[i]
			m, err := a.newMetric(row)
			if err == nil {
				err = t.check(row, all[m.desc.PMID], m)
			}
			if err == nil {
				err = names.add(row.Name, m.desc.PMID)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("metric %s: %w", row.logName(), err))
				continue
			}
			if all[m.desc.PMID] == nil {
				all[m.desc.PMID] = m
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	a.metrics, a.names = all, names
	a.fetch.lookUp()
	return nil
}

// check says what is wrong with a row of t; there is another metric of that
// number if old is not nil.
func (t *Subtree) check(row *Metric, old, m *metric) error {
	switch {
	case row.Name != t.Prefix && !strings.HasPrefix(row.Name, t.Prefix+"."):
		return fmt.Errorf("is not below %s", t.Prefix)
	case old != nil && old.desc != m.desc:
		return fmt.Errorf("%v is another metric already", m.desc.PMID)
	}
	return nil
}

// A tree is the names of all Subtrees. The zero tree has none.
type tree struct {
	nodes map[string]*node // by full name
	pmids map[pdu.PMID][]string
}

type node struct {
	pmid     pdu.PMID // NoPMID if it is no metric
	children []string // the last components
}

// add adds the name of a metric and of all that is above it.
func (t *tree) add(name string, id pdu.PMID) error {
	if t.nodes == nil {
		t.nodes = make(map[string]*node)
		t.pmids = make(map[pdu.PMID][]string)
	}
	if slices.Contains(strings.Split(name, "."), "") {
		return fmt.Errorf("%q is no name", name)
	}
	if t.nodes[name] != nil {
		return errors.New("the name is there twice, or names start with it")
	}
	for above := name; ; {
		i := strings.LastIndexByte(above, '.')
		if i < 0 {
			break
		}
		above = above[:i]
		if n := t.nodes[above]; n != nil && n.pmid != pdu.NoPMID {
			return fmt.Errorf("%s is a metric", above)
		}
	}
	t.nodes[name] = &node{pmid: id}
	t.pmids[id] = append(t.pmids[id], name)
	for {
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return nil
		}
		last := name[i+1:]
		name = name[:i]
		n := t.nodes[name]
		known := n != nil
		if !known {
			n = &node{pmid: pdu.NoPMID}
			t.nodes[name] = n
		}
		n.children = append(n.children, last)
		if known {
			return nil
		}
	}
}

// leaves appends the names of all metrics at or below name.
func (t *tree) leaves(list []string, name string) []string {
	n := t.nodes[name]
	if n.pmid != pdu.NoPMID {
		return append(list, name)
	}
	for _, c := range n.children {
		list = t.leaves(list, name+"."+c)
	}
	return list
}

// PMID implements [agents.Namer].
func (a *agent) PMID(ctx context.Context, o agents.Origin, name string) (pdu.PMID, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return pdu.NoPMID, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	n := a.names.nodes[name]
	if n == nil || n.pmid == pdu.NoPMID {
		return pdu.NoPMID, pdu.ErrnoName // of a place in the tree too, as in C
	}
	return n.pmid, nil
}

// Names implements [agents.Namer].
func (a *agent) Names(ctx context.Context, o agents.Origin, id pdu.PMID) ([]string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	if names := a.names.pmids[id]; len(names) > 0 {
		return names, nil
	}
	return nil, pdu.ErrnoPMID
}

// Children implements [agents.Namer].
func (a *agent) Children(ctx context.Context, o agents.Origin, name string) ([]pdu.Child, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	n := a.names.nodes[name]
	if n == nil {
		return nil, pdu.ErrnoName
	}
	list := make([]pdu.Child, len(n.children))
	for i, c := range n.children {
		list[i] = pdu.Child{Name: c, Leaf: a.names.nodes[name+"."+c].pmid != pdu.NoPMID}
	}
	return list, nil
}

// Traverse implements [agents.Namer].
func (a *agent) Traverse(ctx context.Context, o agents.Origin, name string) ([]string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	if a.names.nodes[name] == nil {
		return nil, pdu.ErrnoName
	}
	return a.names.leaves(nil, name), nil
}
