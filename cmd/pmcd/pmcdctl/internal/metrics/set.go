package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/table"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A Change is a value that was set.
type Change struct {
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"`
	Old      any    `json:"old"` // as Value.Value; null if there was no value
	New      any    `json:"new"` // as it was read afterwards

	old, new string
}

// Set sets the value of a metric, or of the selected instance.
func Set(ctx context.Context, c *pmapi.Client, s Selection, text string) (*Change, error) {
	ids, err := c.Lookup(ctx, s.Name)
	switch {
	case errors.Is(err, pdu.ErrnoNonLeaf):
		return nil, fmt.Errorf("%s is not a metric (pmcdctl list %[1]s shows those below it)", s.Name)
	case ids == nil:
		return nil, err
	case err != nil:
		return nil, unknown(ctx, c, s.Name, err)
	}
	d, err := c.Desc(ctx, ids[0])
	if err != nil {
		return nil, withHint(err)
	}
	inst, err := instanceToSet(ctx, c, s, d)
	if err != nil {
		return nil, err
	}
	v, err := pmapi.ParseValue(d.ValueType, text)
	if err != nil {
		return nil, fmt.Errorf("%s has type %s: %w", s.Name, typeText(d.ValueType), err)
	}
	sampler, err := NewSampler(ctx, c, Choose(s), false)
	if err != nil {
		return nil, err
	}
	change := &Change{Name: s.Name, Instance: s.Instance}
	if change.Old, change.old, err = sampler.one(ctx); err != nil {
		return nil, err
	}
	if err := c.Store(ctx, pmapi.NewValueSet(d.PMID, inst, v)); err != nil {
		return nil, withHint(fmt.Errorf("%v: %w", s, err))
	}
	if change.New, change.new, err = sampler.one(ctx); err != nil {
		return nil, err
	}
	return change, nil
}

// one returns the value of a metric for JSON and for people.
func (s *Sampler) one(ctx context.Context) (any, string, error) {
	sample, err := s.Fetch(ctx)
	if err != nil {
		return nil, "", err
	}
	if m := &sample.Metrics[0]; len(m.Values) == 1 && m.Values[0].Err == nil {
		return m.Values[0].Value, m.Values[0].Text(), nil
	}
	return nil, "no value", nil
}

// instanceToSet returns the number of the instance of a metric that is to be set.
func instanceToSet(ctx context.Context, c *pmapi.Client, s Selection, d pdu.Desc) (int32, error) {
	switch {
	case d.InDom == pdu.NoInDom && s.Instance == "":
		return pdu.NoInst, nil
	case d.InDom == pdu.NoInDom:
		return 0, fmt.Errorf("%s has no instances: leave out [%s]", s.Name, s.Instance)
	case s.Instance != "":
		id, err := c.InstanceID(ctx, d.InDom, s.Instance)
		if err == nil || !errors.Is(err, pdu.ErrnoInst) {
			return id, err
		}
	}
	insts, err := c.Instances(ctx, d.InDom)
	if err != nil {
		return 0, err
	}
	var names []string
	for _, inst := range insts[:min(len(insts), fewInstances)] {
		names = append(names, inst.Name)
	}
	if len(insts) > fewInstances {
		names = append(names, "...")
	}
	if len(names) == 0 {
		return 0, fmt.Errorf("%s has no instances now", s.Name)
	}
	text := "name the instance"
	if s.Instance != "" {
		text = fmt.Sprintf("there is no instance %q", s.Instance)
	}
	return 0, fmt.Errorf("%s: %s: they are %s, as in '%s[%s]'", s.Name, text, strings.Join(names, ", "), s.Name, names[0])
}

// PrintChange writes a change for people.
func PrintChange(w io.Writer, c *Change) error {
	p := table.New(w)
	p.Line("%s: %s -> %s", Selection{c.Name, c.Instance}.String(), c.old, c.new)
	return p.Flush()
}
