package transporttest

import (
	"context"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// An Agent is a small agent with all optional interfaces for metadata, names and
// stores. It is for tests of the code between an agent and a client. Its names are
// below "ref".
type Agent struct {
	Domain int
	level  uint32 // of ref.level
}

var (
	_ agents.Instancer = (*Agent)(nil)
	_ agents.Texter    = (*Agent)(nil)
	_ agents.Labeler   = (*Agent)(nil)
	_ agents.Storer    = (*Agent)(nil)
	_ agents.Namer     = (*Agent)(nil)
)

// Metrics of an Agent, by item in cluster 0.
var metrics = []struct {
	name   string
	typ    pdu.MetricType
	serial int // of the instance domain, or -1
}{
	{"ref.level", pdu.MetricU32, -1}, // can be stored
	{"ref.text", pdu.MetricString, -1},
	{"ref.color.word", pdu.Metric32, 0},
	{"ref.color.double", pdu.MetricDouble, 0},
	{"ref.disk.big", pdu.MetricU64, 1},
	{"ref.disk.float", pdu.MetricFloat, 1},
	{"ref.nothing", pdu.MetricU32, 2}, // has no instances
}

// Instance domains of an Agent, by serial.
var indoms = [][]pdu.Inst{
	{{ID: 0, Name: "red"}, {ID: 1, Name: "green"}, {ID: 2, Name: "blue"}},
	{{ID: 10, Name: "sda first"}, {ID: 20, Name: "sdb second"}},
	{},
}

// Metrics returns the metrics of a.
func (a *Agent) Metrics() (ids []pdu.PMID) {
	for item := range metrics {
		ids = append(ids, pdu.NewPMID(a.Domain, 0, item))
	}
	return ids
}

func (a *Agent) item(id pdu.PMID) (int, bool) {
	return id.Item(), id.Domain() == a.Domain && id.Cluster() == 0 && id.Item() < len(metrics)
}

// Desc implements [agents.Agent].
func (a *Agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	i, ok := a.item(id)
	if !ok {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	d := pdu.Desc{PMID: id, ValueType: metrics[i].typ, InDom: pdu.NoInDom, Sem: pdu.SemInstant}
	if s := metrics[i].serial; s >= 0 {
		d.InDom = pdu.NewInDom(a.Domain, s)
	}
	return d, nil
}

// Fetch implements [agents.Agent].
func (a *Agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		i, ok := a.item(id)
		if !ok {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		if metrics[i].serial < 0 {
			a.writeValue(w, metrics[i].typ, pdu.NoInst)
			continue
		}
		indom := pdu.NewInDom(a.Domain, metrics[i].serial)
		for _, inst := range indoms[metrics[i].serial] {
			if r.Profile.Includes(indom, inst.ID) {
				a.writeValue(w, metrics[i].typ, inst.ID)
			}
		}
	}
	return nil
}

func (a *Agent) writeValue(w *pdu.ResultWriter, typ pdu.MetricType, inst int32) {
	switch typ {
	case pdu.MetricU32, pdu.Metric32:
		w.Word(inst, a.level)
	case pdu.MetricU64:
		w.Uint64(inst, typ, 1<<40)
	case pdu.MetricFloat:
		w.Float32(inst, 0.5)
	case pdu.MetricDouble:
		w.Float64(inst, 0.25)
	case pdu.MetricString:
		w.String(inst, "text")
	}
}

// Instances implements [agents.Instancer].
func (a *Agent) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if s := indom.Serial(); indom.Domain() == a.Domain && s < len(indoms) {
		return indoms[s], nil
	}
	return nil, pdu.ErrnoInDom
}

// Text implements [agents.Texter].
func (a *Agent) Text(_ context.Context, _ agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	i, ok := a.item(id)
	if !ok || i == 0 && !oneline { // ref.level has no long text
		return "", pdu.ErrnoText
	}
	if oneline {
		return metrics[i].name + " in one line", nil
	}
	return metrics[i].name + "\nin two lines", nil
}

// InDomText implements [agents.Texter].
func (a *Agent) InDomText(_ context.Context, _ agents.Origin, indom pdu.InDom, oneline bool) (string, error) {
	if indom != pdu.NewInDom(a.Domain, 0) {
		return "", pdu.ErrnoText
	}
	return "colors", nil
}

// Labels implements [agents.Labeler].
func (a *Agent) Labels(_ context.Context, _ agents.Origin, kind pdu.LabelKind, ident uint32) (sets []pdu.LabelSet, err error) {
	insts := []pdu.Inst{{ID: pdu.NoInst}}
	if kind == pdu.LabelInstances {
		if s := pdu.InDom(ident).Serial(); pdu.InDom(ident).Domain() == a.Domain && s < len(indoms) {
			insts = indoms[s]
		}
	}
	for _, inst := range insts {
		set, err := pdu.NewLabelSet(inst.ID, kind,
			pdu.NamedLabel{Name: "ident", Value: fmt.Sprint(ident)}, pdu.NamedLabel{Name: "inst", Value: fmt.Sprintf("%q", inst.Name)})
		if err != nil {
			return nil, err
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// Store implements [agents.Storer].
func (a *Agent) Store(_ context.Context, _ agents.Origin, r *pdu.Result) error {
	for _, vs := range r.Sets {
		switch i, ok := a.item(vs.PMID); {
		case !ok:
			return pdu.ErrnoPMID
		case i != 0:
			return pdu.ErrnoPermission
		case len(vs.Values) != 1 || vs.Format != pdu.FormatInsitu:
			return pdu.ErrnoBadStore
		}
		a.level = vs.Values[0].Word
	}
	return nil
}

// PMID implements [agents.Namer].
func (a *Agent) PMID(_ context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	for i, m := range metrics {
		switch {
		case m.name == name:
			return pdu.NewPMID(a.Domain, 0, i), nil
		case strings.HasPrefix(m.name, name+"."):
			return 0, pdu.ErrnoNonLeaf
		}
	}
	return 0, pdu.ErrnoName
}

// Names implements [agents.Namer].
func (a *Agent) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if i, ok := a.item(id); ok {
		return []string{metrics[i].name}, nil
	}
	return nil, pdu.ErrnoPMID
}

// Children implements [agents.Namer].
func (a *Agent) Children(_ context.Context, _ agents.Origin, name string) (children []pdu.Child, err error) {
	for _, m := range metrics {
		rest, ok := strings.CutPrefix(m.name, name+".")
		if !ok {
			continue
		}
		first, _, more := strings.Cut(rest, ".")
		if n := len(children); n == 0 || children[n-1].Name != first {
			children = append(children, pdu.Child{Name: first, Leaf: !more})
		}
	}
	if children == nil {
		return nil, pdu.ErrnoName
	}
	return children, nil
}

// Traverse implements [agents.Namer].
func (a *Agent) Traverse(_ context.Context, _ agents.Origin, name string) (names []string, err error) {
	for _, m := range metrics {
		if m.name == name || strings.HasPrefix(m.name, name+".") {
			names = append(names, m.name)
		}
	}
	if names == nil {
		return nil, pdu.ErrnoName
	}
	return names, nil
}
