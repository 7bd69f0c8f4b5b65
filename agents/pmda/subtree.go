package pmda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/nametree"
	"github.com/gopcp/pmcd/pdu"
)

// A Subtree is a part of the name space with metrics that may change
// (pmdaDynamicPMNS(3)). The PMNS of the host has only its root, as
// "PREFIX DOMAIN:*:*".
type Subtree struct {
	// Prefix is the full name of the root, such as "hotproc".
	Prefix string

	// Source, if not nil, is read before names or metrics are looked up. Its Read
	// function calls Set if the metrics have changed.
	Source *Source

	a       *agent
	metrics []Metric
}

// Set replaces the metrics of the subtree. Their Names are the Prefix itself, or
// begin with the Prefix and a dot. A metric with several names is in the slice
// several times. If Set returns an error, which lists all problems, the metrics
// have not changed. Call Set before New or from a function of the agent. The caller
// must not use the slice afterwards.
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

// join makes t a subtree of a. The caller calls rebuild.
func (t *Subtree) join(a *agent) error {
	if t.Prefix == "" {
		return errors.New("a subtree has no prefix")
	}
	t.a = a
	return nil
}

// refreshNames reads the Sources of Subtrees.
func (a *agent) refreshNames(ctx context.Context) {
	for _, t := range a.conf.Subtrees {
		if err := a.read(ctx, t.Source); err != nil && a.req.ended == nil {
			a.warn("names below "+t.Prefix, err) // clients do not get it
		}
	}
}

// rebuild makes new tables from Config.Metrics and all Subtrees.
func (a *agent) rebuild() error {
	all := maps.Clone(a.fixed)
	names := new(nametree.Tree)
	namesOf := make(map[pdu.PMID][]string)
	var errs []error
	for _, t := range a.conf.Subtrees {
		if t.a == nil {
			continue // it has no prefix
		}
		for i := range t.metrics {
			row := &t.metrics[i]
			m, err := a.newMetric(row)
			if err == nil {
				err = t.check(row, all[m.desc.PMID], m)
			}
			if err == nil {
				err = names.Add(row.Name, m.desc.PMID)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("metric %s: %w", row.logName(), err))
				continue
			}
			namesOf[m.desc.PMID] = append(namesOf[m.desc.PMID], row.Name)
			if all[m.desc.PMID] == nil {
				all[m.desc.PMID] = m
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	a.metrics, a.names, a.namesOf = all, names, namesOf
	a.fetch.lookUp()
	return nil
}

// check checks a row of t. old is the metric that has the same PMID already, or nil.
func (t *Subtree) check(row *Metric, old, m *metric) error {
	switch {
	case row.Name != t.Prefix && !strings.HasPrefix(row.Name, t.Prefix+"."):
		return fmt.Errorf("its name is not below %s", t.Prefix)
	case old != nil && old.desc != m.desc:
		return fmt.Errorf("its number %v is that of another metric", m.desc.PMID)
	}
	return nil
}

// PMID implements [agents.Namer].
func (a *agent) PMID(ctx context.Context, o agents.Origin, name string) (pdu.PMID, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return pdu.NoPMID, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	return a.names.PMID(name) // an error also for a name that is not a leaf, as in C
}

// Names implements [agents.Namer].
func (a *agent) Names(ctx context.Context, o agents.Origin, id pdu.PMID) ([]string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	if names := a.namesOf[id]; len(names) > 0 {
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
	return a.names.Children(name, r.Err)
}

// Traverse implements [agents.Namer].
func (a *agent) Traverse(ctx context.Context, o agents.Origin, name string) ([]string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return nil, err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	list, err := a.names.Leaves(name, r.Err)
	return list, cmp.Or(err, r.err())
}
