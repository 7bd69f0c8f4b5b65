package pmapi

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A renaming is a fake whose instances have names that change, as those of processes do, and a
// counter for each of them.
type renaming struct {
	*fake
	insts []pdu.Inst
	deny  pdu.Errno // of requests for instances
	count uint32
}

func startRenaming(t *testing.T, insts ...pdu.Inst) *renaming {
	f := &renaming{fake: startFake(t), insts: insts}
	desc := fakeDesc(loadID)
	desc.Sem, desc.ValueType = pdu.SemCounter, pdu.MetricU32
	f.features &^= pdu.FeatureDescs
	sec := int64(1000)
	f.setHandle(func(s *session, m pdu.Message) bool {
		switch m := m.(type) {
		case *pdu.DescReq:
			s.send(&desc)
		case *pdu.InstanceReq:
			f.replyInstances(s, m)
		case *pdu.HighResFetch:
			sec++
			f.count += 10
			r := &pdu.HighResResult{Sec: sec}
			for _, id := range m.PMIDs {
				set := NewValueSet(id, pdu.NoInst, ValueOf(f.count))
				set.Values = nil
				for _, inst := range f.insts {
					set.Values = append(set.Values, NewValueSet(id, inst.ID, ValueOf(f.count)).Values...)
				}
				r.Sets = append(r.Sets, set)
			}
			s.send(r)
		default:
			return false
		}
		return true
	})
	return f
}

// replyInstances replies as the agent proc does, for which a number is a name, too.
func (f *renaming) replyInstances(s *session, m *pdu.InstanceReq) {
	r := &pdu.Instance{InDom: m.InDom}
	for _, inst := range f.insts {
		switch {
		case m.Inst == pdu.NoInst && m.Name == "":
			r.Insts = append(r.Insts, inst)
		case m.Name == inst.Name || m.Name == fmt.Sprint(inst.ID):
			r.Insts = append(r.Insts, pdu.Inst{ID: inst.ID})
		case m.Inst == inst.ID:
			r.Insts = append(r.Insts, pdu.Inst{ID: pdu.NoInst, Name: inst.Name})
		}
	}
	switch {
	case f.deny != 0:
		s.send(&pdu.Error{Code: f.deny})
	case len(r.Insts) == 0:
		s.send(&pdu.Error{Code: pdu.ErrnoInst})
	default:
		s.send(r)
	}
}

// The name of an instance is that of the program that has its number now, after exec or when the
// number is used again. The rate of its counter begins anew.
func TestGroupRenamed(t *testing.T) {
	f := startRenaming(t, pdu.Inst{ID: 7, Name: "7 init"}, pdu.Inst{ID: 9, Name: "9 alpha"})
	g := f.dial(Options{}).NewGroup()
	var rates []Instance[float64]
	var texts []Instance[string]
	BindAll(g, &rates, "fake.load", ItemOptions{})
	BindAll(g, &texts, "fake.load", ItemOptions{})
	again := pdu.ErrnoAgain
	for _, tt := range []struct {
		what  string
		names []string
		deny  pdu.Errno
		want  []Instance[float64]
	}{
		{"the first fetch", []string{"7 init", "9 alpha"}, 0, []Instance[float64]{{7, "7 init", 0, again}, {9, "9 alpha", 0, again}}},
		{"no change", []string{"7 init", "9 alpha"}, 0, []Instance[float64]{{7, "7 init", 10, nil}, {9, "9 alpha", 10, nil}}},
		{"another program", []string{"7 init", "9 beta"}, 0, []Instance[float64]{{7, "7 init", 10, nil}, {9, "9 beta", 0, again}}},
		{"no change of that", []string{"7 init", "9 beta"}, 0, []Instance[float64]{{7, "7 init", 10, nil}, {9, "9 beta", 10, nil}}},
		{"no answer", []string{"7 init", "9 gamma"}, pdu.ErrnoAgain, []Instance[float64]{{7, "7 init", 10, nil}, {9, "9 beta", 10, nil}}},
		{"an answer", []string{"7 init", "9 gamma"}, 0, []Instance[float64]{{7, "7 init", 10, nil}, {9, "9 gamma", 0, again}}},
	} {
		for i, name := range tt.names {
			f.insts[i].Name = name
		}
		f.deny = tt.deny
		f.seen()
		if _, err := g.Fetch(testContext(t)); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(rates, tt.want, func(a, b Instance[float64]) bool {
			return a.ID == b.ID && a.Name == b.Name && a.Value == b.Value && errors.Is(a.Err, b.Err)
		}) {
			t.Errorf("%s: %+v, want %+v", tt.what, rates, tt.want)
		}
		for i := range texts {
			if texts[i].Name != tt.want[i].Name || texts[i].Err != nil || texts[i].Value != fmt.Sprint(f.count) {
				t.Errorf("%s: as text %+v", tt.what, texts)
			}
		}
		asked := 0
		for _, typ := range f.seen() {
			if typ == pdu.TypeInstanceReq {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("%s: %d requests for names, want 1 for all metrics of a domain", tt.what, asked)
		}
	}
}

// A variable for one instance has no value of another program with its number.
func TestGroupRenamedInstance(t *testing.T) {
	for _, tt := range []struct {
		name     string
		instance []string // of a variable each
		second   pdu.Inst // in place of instance 9, alpha
		errs     []error  // of the fetch after that
		later    []error  // of the next one
	}{
		{"no change", []string{"9 alpha"}, pdu.Inst{ID: 9, Name: "9 alpha"}, []error{nil}, []error{nil}},
		{"another program", []string{"9 alpha"}, pdu.Inst{ID: 9, Name: "9 beta"}, []error{pdu.ErrnoInst}, []error{pdu.ErrnoInst}},
		{"another number", []string{"9 alpha"}, pdu.Inst{ID: 10, Name: "9 alpha"}, []error{pdu.ErrnoInst}, []error{nil}},
		{"only the number is asked for", []string{"9"}, pdu.Inst{ID: 9, Name: "9 beta"}, []error{nil}, []error{nil}},
		{"several", []string{"7 init", "9 alpha", "9"}, pdu.Inst{ID: 9, Name: "9 beta"}, []error{nil, pdu.ErrnoInst, nil}, []error{nil, pdu.ErrnoInst, nil}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startRenaming(t, pdu.Inst{ID: 7, Name: "7 init"}, pdu.Inst{ID: 9, Name: "9 alpha"})
			g := f.dial(Options{}).NewGroup()
			values := make([]int64, len(tt.instance))
			items := make([]*Item, len(values))
			for i, name := range tt.instance {
				items[i] = Bind(g, &values[i], "fake.load", ItemOptions{Instance: name, Raw: true})
			}
			for n, want := range [][]error{make([]error, len(values)), make([]error, len(values)), tt.errs, tt.later} {
				if n == 2 {
					f.insts[1] = tt.second
				}
				if _, err := g.Fetch(testContext(t)); err != nil {
					t.Fatal(err)
				}
				for i := range items {
					if err := items[i].Err(); !errors.Is(err, want[i]) || (want[i] == nil) != (values[i] == int64(f.count)) {
						t.Errorf("fetch %d, %s: %d, %v, want %v", n+1, tt.instance[i], values[i], err, want[i])
					}
				}
			}
		})
	}
}
