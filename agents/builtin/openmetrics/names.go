package openmetrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// addName adds the name of a metric. The error says why it cannot have that name.
func (a *agent) addName(name string, id pdu.PMID) error {
	if err := checkName(name); err != nil {
		return err
	}
	return a.names.Add(name, id)
}

// checkName returns an error if PCP does not allow the name of a metric.
func checkName(name string) error {
	if len(name) > maxName || strings.Count(name, ".") >= maxDepth {
		return fmt.Errorf("its name has more than %d bytes or %d parts", maxName, maxDepth)
	}
	for c := range strings.SplitSeq(name, ".") {
		if !validName("a"+c) || c == "" || strings.Contains(c, ":") { // it may begin with a digit, as in job:rate:5m
			return fmt.Errorf("%.200q is not a name of PCP", name)
		}
	}
	return nil
}

// lookUp looks for new sources, and reads those at, above or below name that have no metrics.
func (a *agent) lookUp(ctx context.Context, name string) {
	a.scan()
	var list []*source
	for _, s := range a.sources {
		if (s.tried.IsZero() || time.Since(s.tried) > emptyRetry) && related(name, s.prefix) && s.isEmpty() {
			list = append(list, s)
		}
	}
	a.read(ctx, list, a.timeout)
	for _, s := range a.sources { // one may have replied later
		a.adopt(s)
	}
}

// related reports whether one of two names is the other or below it. "" is above all.
func related(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == "" || a == b || strings.HasPrefix(b, a) && b[len(a)] == '.'
}

// PMID implements [agents.Namer].
func (a *agent) PMID(ctx context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	id, err := a.names.PMID(name)
	if err != nil {
		a.lookUp(ctx, name)
		return a.names.PMID(name)
	}
	return id, nil
}

// Names implements [agents.Namer].
func (a *agent) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if c := a.control(id); c != nil {
		return []string{c.fullName(a)}, nil
	}
	s, m, err := a.metric(id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return []string{m.name}, nil
}

// Children implements [agents.Namer]. As from PCP's agent, the last name comes first.
func (a *agent) Children(ctx context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	a.lookUp(ctx, name)
	list, err := a.names.Children(name, ctx.Err)
	slices.Reverse(list)
	return list, err
}

// Traverse implements [agents.Namer].
func (a *agent) Traverse(ctx context.Context, _ agents.Origin, name string) ([]string, error) {
	a.lookUp(ctx, name)
	list, err := a.names.Leaves(name, ctx.Err)
	slices.Reverse(list)
	return list, err
}
