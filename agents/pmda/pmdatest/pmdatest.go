// Package pmdatest has what tests of agents made of tables need: a client that
// reads values as text, and trees of files in place of those of the kernel.
package pmdatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// A Harness is an agent and a client of it.
type Harness struct {
	testing.TB
	Domain    int
	Agent     agents.Agent
	Transport transport.Transport
	Metrics   map[string]pmda.Metric // by name

	// ByID has the serials of the domains whose instances have many names or
	// long ones: Values gives their ids.
	ByID []int
}

// New returns a rig for an agent in a domain that was made of metrics. It is
// closed when the test is over.
func New(tb testing.TB, domain int, a agents.Agent, metrics []pmda.Metric) *Harness {
	r := &Harness{TB: tb, Domain: domain, Agent: a, Transport: transport.Inline(a), Metrics: make(map[string]pmda.Metric)}
	tb.Cleanup(func() { r.Transport.Close() })
	for _, m := range metrics {
		r.Metrics[m.Name] = m
	}
	return r
}

// ID returns the PMID of a metric.
func (r *Harness) ID(name string) pdu.PMID {
	r.Helper()
	m, ok := r.Metrics[name]
	if !ok {
		r.Fatalf("no metric %s", name)
	}
	return pdu.NewPMID(r.Domain, m.Cluster, m.Item)
}

// IDs returns the PMIDs of all metrics.
func (r *Harness) IDs() (ids []pdu.PMID) {
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		ids = append(ids, r.ID(name))
	}
	return ids
}

// Values fetches a metric and returns its values as text: "5",
// "vda=5 vdb=6" with _ for blanks in names, or an error.
func (r *Harness) Values(name string) string {
	r.Helper()
	var res pdu.Result
	if err := agenttest.Do(r.Transport, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{r.ID(name)}}, &res); err != nil {
		return err.Error()
	}
	set := res.Sets[0]
	if set.Err != 0 {
		return set.Err.Error()
	}
	names := map[int32]string{}
	if d := r.Metrics[name].InDom; d != nil && len(set.Values) > 0 && !slices.Contains(r.ByID, d.Serial) {
		for _, i := range r.Instances(d.Serial) {
			names[i.ID] = strings.ReplaceAll(i.Name, " ", "_")
		}
	}
	var words []string
	for _, v := range set.Values {
		text := valueText(v, r.Metrics[name].Type)
		if v.Inst != pdu.NoInst {
			inst, ok := names[v.Inst]
			if !ok {
				inst = fmt.Sprint(v.Inst)
			}
			text = inst + "=" + text
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

// Want compares values of metrics with what they are to be.
func (r *Harness) Want(values map[string]string) {
	r.Helper()
	for name, want := range values {
		if got := r.Values(name); got != want {
			r.Errorf("%s\n got %q\nwant %q", name, got, want)
		}
	}
}

// Instances returns those of a domain.
func (r *Harness) Instances(serial int) []pdu.Inst {
	r.Helper()
	var in pdu.Instance
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(r.Domain, serial), Inst: pdu.NoInst}
	if err := agenttest.Do(r.Transport, agents.Origin{}, req, &in); err != nil {
		r.Fatal(err)
	}
	return in.Insts
}

// Labels returns those of an instance domain, or of its instances.
func (r *Harness) Labels(kind pdu.LabelKind, serial int) (list []string) {
	r.Helper()
	var reply pdu.Labels
	req := &pdu.LabelReq{Kind: kind, Ident: uint32(pdu.NewInDom(r.Domain, serial))}
	if err := agenttest.Do(r.Transport, agents.Origin{}, req, &reply); err != nil {
		r.Fatal(err)
	}
	for _, s := range reply.Sets {
		list = append(list, string(s.JSON))
	}
	return list
}

// Store stores a value and returns the error, "" for none.
func (r *Harness) Store(name string, v pdu.Value) string {
	r.Helper()
	v.Inst = pdu.NoInst
	set := pdu.ValueSet{PMID: r.ID(name), Values: []pdu.Value{v}}
	if v.Block != nil {
		set.Format = pdu.FormatBlock
	}
	if err := agenttest.Do(r.Transport, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{set}}, new(pdu.Error)); err != nil {
		return err.Error()
	}
	return ""
}

// Repeat returns a function that fetches metrics without a wire, and returns
// the size of the reply in bytes. It is for measuring: nothing is allocated here.
func (r *Harness) Repeat(names ...string) (fetch func() int) {
	r.Helper()
	req := &agents.FetchRequest{Profile: new(pdu.Profile)}
	for _, name := range names {
		req.PMIDs = append(req.PMIDs, r.ID(name))
	}
	var w pdu.ResultWriter
	var buf []byte
	return func() int {
		w.Reset(buf[:0], 0)
		if err := r.Agent.Fetch(context.Background(), req, &w); err != nil {
			r.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			r.Fatal(err)
		}
		buf = b
		return len(b)
	}
}

// CheckNamesAndHelp checks that the name space in a file has the metrics of the tables,
// each with its PMID, and that a, an agent with help texts, has a line for each
// and for their instance domains.
func (r *Harness) CheckNamesAndHelp(pmns string, a agents.Agent) {
	r.Helper()
	tree, err := pmnsload.Load(pmns, pmnsload.Options{Preprocess: true, Unique: true, Shell: pmnsload.NoShell})
	if err != nil {
		r.Fatal(err)
	}
	names := 0
	for e := range tree.All("") {
		if e.PMID.Domain() != r.Domain {
			continue
		}
		names++
		if _, ok := r.Metrics[e.Name]; !ok || r.ID(e.Name) != e.PMID {
			r.Errorf("%s %v of the name space is not in the tables", e.Name, e.PMID)
		}
	}
	if names != len(r.Metrics) {
		r.Errorf("%d names, %d metrics", names, len(r.Metrics))
	}
	texter := a.(agents.Texter)
	for name, m := range r.Metrics {
		if text, err := texter.Text(r.Context(), agents.Origin{}, r.ID(name), true); err != nil || len(text) > 80 {
			r.Errorf("help of %s: %q, %v", name, text, err)
		}
		if m.InDom == nil {
			continue
		}
		if text, err := texter.InDomText(r.Context(), agents.Origin{}, pdu.NewInDom(r.Domain, m.InDom.Serial), true); err != nil || len(text) > 80 {
			r.Errorf("help of indom %d: %q, %v", m.InDom.Serial, text, err)
		}
	}
}

func valueText(v pdu.Value, typ pdu.MetricType) string {
	switch b := v.Block; {
	case b == nil && typ == pdu.Metric32:
		return fmt.Sprint(int32(v.Word))
	case b == nil:
		return fmt.Sprint(v.Word)
	case v.Type == pdu.MetricString:
		return strings.TrimRight(string(b), "\x00")
	case v.Type == pdu.MetricFloat:
		return fmt.Sprint(math.Float32frombits(binary.BigEndian.Uint32(b)))
	case v.Type == pdu.MetricDouble:
		return fmt.Sprint(math.Float64frombits(binary.BigEndian.Uint64(b)))
	case v.Type == pdu.Metric64:
		return fmt.Sprint(int64(binary.BigEndian.Uint64(b)))
	case v.Type == pdu.MetricU64:
		return fmt.Sprint(binary.BigEndian.Uint64(b))
	default:
		return fmt.Sprintf("%v %x", v.Type, b)
	}
}
