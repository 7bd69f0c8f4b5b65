package pmda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// visited counts the instances that Each passes on.
type visited struct {
	pmda.List
	n int
}

func (v *visited) Each(yield func(int32, string, any) bool) {
	v.List.Each(func(inst int32, name string, data any) bool {
		v.n++
		return yield(inst, name, data)
	})
}

// Every method that handles many items ends within 64 of them when its context ends, with
// the error of the context, and asks for the error of the context for every 64 items.
func TestMethodsEndWithContext(t *testing.T) {
	const n, every = 100000, 64
	insts := &visited{List: numbered(n)}
	values, labels, items := 0, 0, 0
	dom := &pmda.InDom{Insts: insts, InstLabels: func(context.Context, *pmda.Request, pdu.Inst) (pmda.Labels, error) {
		labels++
		return nil, nil
	}}
	m := row(0, func(_ context.Context, v *pmda.Value) error { values++; v.SetInt(1); return nil })
	m.InDom = dom
	slow := row(1, sets(1))
	slow.Source = &pmda.Source{Read: func(_ context.Context, r *pmda.Request) error {
		for range n {
			items++
			if err := r.Err(); err != nil {
				return err
			}
		}
		return nil
	}}
	single := row(2, func(_ context.Context, v *pmda.Value) error { values++; return nil })
	var names []pmda.Metric
	for i := range 1000 {
		row := row(i, sets(1))
		row.Cluster, row.Name = 1, fmt.Sprint("many.n", i)
		names = append(names, row)
	}
	tree := &pmda.Subtree{Prefix: "many"}
	if err := tree.Set(names); err != nil {
		t.Fatal(err)
	}
	a, err := pmda.New(pmda.Config{Domain: domain, Metrics: []pmda.Metric{m, slow, single}, Subtrees: []*pmda.Subtree{tree}})
	if err != nil {
		t.Fatal(err)
	}
	indom := pdu.NewInDom(domain, 0)
	fetch := func(p *pdu.Profile, ids ...pdu.PMID) func(context.Context) error {
		return func(ctx context.Context) error {
			var w pdu.ResultWriter
			w.Reset(nil, 0)
			return a.Fetch(ctx, &agents.FetchRequest{PMIDs: ids, Profile: p}, &w)
		}
	}
	profile := func(exclude bool, insts ...int32) *pdu.Profile {
		return &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: exclude, Insts: insts}}}
	}
	var singles []pdu.PMID
	for range n {
		singles = append(singles, id(0, 2))
	}
	for _, tt := range []struct {
		name string
		call func(context.Context) error
		n    int // items, and so calls of the function, if the context does not end
	}{
		{"a fetch of all instances", fetch(new(pdu.Profile), id(0, 0)), n},
		{"a fetch of all but one", fetch(profile(false, 5), id(0, 0)), n},
		{"a fetch of the last one", fetch(profile(true, n-1), id(0, 0)), n},
		{"a fetch of many metrics", fetch(new(pdu.Profile), singles...), n},
		{"a Source", fetch(new(pdu.Profile), id(0, 1)), n},
		{"Instances", func(ctx context.Context) error {
			_, err := a.(agents.Instancer).Instances(ctx, agents.Origin{}, indom)
			return err
		}, n},
		{"labels of instances", func(ctx context.Context) error {
			_, err := a.(agents.Labeler).Labels(ctx, agents.Origin{}, pdu.LabelInstances, uint32(indom))
			return err
		}, 2 * n},
		{"Children", func(ctx context.Context) error {
			_, err := a.(agents.Namer).Children(ctx, agents.Origin{}, "many")
			return err
		}, 1000},
		{"Traverse", func(ctx context.Context) error {
			_, err := a.(agents.Namer).Traverse(ctx, agents.Origin{}, "many")
			return err
		}, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			if err := tt.call(testutil.OnErr(t.Context(), func() { calls++ })); err != nil {
				t.Fatal(err)
			}
			if want := tt.n / every; calls < want {
				t.Errorf("%d looks at the context, want %d or more", calls, want)
			}
			insts.n, values, labels, items = 0, 0, 0, 0
			calls = 0
			ctx, cancel := context.WithCancel(t.Context())
			ctx = testutil.OnErr(ctx, func() { calls++; cancel() })
			if err := tt.call(ctx); err != context.Canceled || calls != 1 {
				t.Errorf("after the context has ended: %v after %d looks at the context, want %v after one", err, calls, context.Canceled)
			}
			if most := max(insts.n, values, labels, items); most > every {
				t.Errorf("%d items were handled, want %d at most", most, every)
			}
		})
	}
}

// What fails because the context has ended is not logged: the client has gone. The next
// request is not affected.
func TestEndedContextIsNotLogged(t *testing.T) {
	for _, tt := range []struct {
		name string
		conf func(*pmda.Config, *pmda.Metric, *pmda.Source)
	}{
		{"of a metric", func(_ *pmda.Config, m *pmda.Metric, s *pmda.Source) { m.Source = s }},
		{"of an instance domain", func(_ *pmda.Config, m *pmda.Metric, s *pmda.Source) { m.InDom.Source = s }},
		{"of names", func(c *pmda.Config, _ *pmda.Metric, s *pmda.Source) {
			c.Subtrees = []*pmda.Subtree{{Prefix: "tree", Source: s}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			var cancel func()
			m := row(0, sets(1))
			m.InDom = &pmda.InDom{Insts: numbered(3)}
			c := pmda.Config{Domain: domain, Log: slog.New(slog.NewTextHandler(&out, nil))}
			tt.conf(&c, &m, &pmda.Source{Read: func(context.Context, *pmda.Request) error {
				if cancel == nil {
					return nil
				}
				cancel()
				return errors.New("the connection is closed")
			}})
			c.Metrics = []pmda.Metric{m}
			a, err := pmda.New(c)
			if err != nil {
				t.Fatal(err)
			}
			indom := pdu.NewInDom(domain, 0)
			for _, ends := range []bool{true, false} {
				for name, call := range map[string]func(context.Context) error{
					"fetch": func(ctx context.Context) error {
						var w pdu.ResultWriter
						w.Reset(nil, 0)
						return a.Fetch(ctx, &agents.FetchRequest{PMIDs: []pdu.PMID{id(0, 0)}, Profile: new(pdu.Profile)}, &w)
					},
					"instances": func(ctx context.Context) error {
						_, err := a.(agents.Instancer).Instances(ctx, agents.Origin{}, indom)
						return err
					},
					"labels": func(ctx context.Context) error {
						_, err := a.(agents.Labeler).Labels(ctx, agents.Origin{}, pdu.LabelInstances, uint32(indom))
						return err
					},
				} {
					ctx, stop := context.WithCancel(t.Context())
					if cancel = nil; ends {
						cancel = stop
					}
					err := call(ctx)
					if err != ctx.Err() {
						t.Errorf("%s: %v, want %v", name, err, ctx.Err())
					}
					stop()
				}
			}
			if out.Len() > 0 {
				t.Errorf("logged: %s", &out)
			}
		})
	}
}
