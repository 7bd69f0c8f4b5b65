// Package pmdatest helps to test agents of package pmda. It has a client that returns
// values as text, and makes trees of files to replace those of the kernel.
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
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// A Harness has an agent and is a client of it.
type Harness struct {
	testing.TB
	Domain  int
	Agent   agents.Agent
	Metrics map[string]pmda.Metric // by name

	// ByID has the serials of instance domains with many or long names. Values
	// returns the ids of their instances.
	ByID []int

	transport transport.Transport
}

// New returns a Harness for an agent that was made from metrics. The agent is closed
// at the end of the test.
func New(tb testing.TB, domain int, a agents.Agent, metrics []pmda.Metric) *Harness {
	h := &Harness{TB: tb, Domain: domain, Agent: a, Metrics: make(map[string]pmda.Metric), transport: transport.Inline(a)}
	tb.Cleanup(h.Close)
	for _, m := range metrics {
		h.Metrics[m.Name] = m
	}
	return h
}

// Close closes the agent before the end of the test.
func (h *Harness) Close() { h.transport.Close() }

// Do sends a request to the agent and decodes the reply, as agenttest.Do does.
func (h *Harness) Do(req, reply pdu.Message) error {
	return transporttest.Do(h.transport, agents.Origin{}, req, reply)
}

// SetAttrs tells the agent all attributes of the client, such as its user and its
// container, before the next request.
func (h *Harness) SetAttrs(attrs ...pdu.Attr) { h.transport.Notify(transport.Notice{Attrs: attrs}) }

// NewClient ends the client, and makes one with other attributes, before the next request.
func (h *Harness) NewClient(attrs ...pdu.Attr) {
	h.transport.Notify(transport.Notice{End: true, Attrs: attrs})
}

// ID returns the PMID of a metric.
func (h *Harness) ID(name string) pdu.PMID {
	h.Helper()
	m, ok := h.Metrics[name]
	if !ok {
		h.Fatalf("no metric %s", name)
	}
	return pdu.NewPMID(h.Domain, m.Cluster, m.Item)
}

// IDs returns the PMIDs of all metrics.
func (h *Harness) IDs() (ids []pdu.PMID) {
	for _, name := range slices.Sorted(maps.Keys(h.Metrics)) {
		ids = append(ids, h.ID(name))
	}
	return ids
}

// Values fetches a metric and returns its values as text: "5",
// "vda=5 vdb=6" with _ for blanks in names, or an error.
func (h *Harness) Values(name string) string {
	h.Helper()
	var res pdu.Result
	if err := h.Do(&pdu.Fetch{PMIDs: []pdu.PMID{h.ID(name)}}, &res); err != nil {
		return err.Error()
	}
	set := res.Sets[0]
	if set.Err != 0 {
		return set.Err.Error()
	}
	names := map[int32]string{}
	if d := h.Metrics[name].InDom; d != nil && len(set.Values) > 0 && !slices.Contains(h.ByID, d.Serial) {
		for _, i := range h.Instances(d.Serial) {
			names[i.ID] = strings.ReplaceAll(i.Name, " ", "_")
		}
	}
	var words []string
	for _, v := range set.Values {
		text := valueText(v, h.Metrics[name].Type)
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

// Want checks values of metrics, which are as Values returns them.
func (h *Harness) Want(values map[string]string) {
	h.Helper()
	for name, want := range values {
		if got := h.Values(name); got != want {
			h.Errorf("%s\n got %q\nwant %q", name, got, want)
		}
	}
}

// Instances returns the instances of an instance domain.
func (h *Harness) Instances(serial int) []pdu.Inst {
	h.Helper()
	var in pdu.Instance
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(h.Domain, serial), Inst: pdu.NoInst}
	if err := h.Do(req, &in); err != nil {
		h.Fatal(err)
	}
	return in.Insts
}

// Labels returns the labels of an instance domain or of its instances, as JSON.
func (h *Harness) Labels(kind pdu.LabelKind, serial int) (list []string) {
	h.Helper()
	var reply pdu.Labels
	req := &pdu.LabelReq{Kind: kind, Ident: uint32(pdu.NewInDom(h.Domain, serial))}
	if err := h.Do(req, &reply); err != nil {
		h.Fatal(err)
	}
	for _, s := range reply.Sets {
		list = append(list, string(s.JSON))
	}
	return list
}

// Store stores a value and returns the text of the error, or "".
func (h *Harness) Store(name string, v pdu.Value) string {
	h.Helper()
	v.Inst = pdu.NoInst
	set := pdu.ValueSet{PMID: h.ID(name), Values: []pdu.Value{v}}
	if v.Block != nil {
		set.Format = pdu.FormatBlock
	}
	if err := h.Do(&pdu.Result{Sets: []pdu.ValueSet{set}}, new(pdu.Error)); err != nil {
		return err.Error()
	}
	return ""
}

// Repeat returns a function that calls the agent's Fetch and returns the size of the
// reply in bytes. It is for benchmarks: the function itself does not allocate.
func (h *Harness) Repeat(names ...string) (fetch func() int) {
	h.Helper()
	req := &agents.FetchRequest{Profile: new(pdu.Profile)}
	for _, name := range names {
		req.PMIDs = append(req.PMIDs, h.ID(name))
	}
	var w pdu.ResultWriter
	var buf []byte
	return func() int {
		w.Reset(buf[:0], 0)
		if err := h.Agent.Fetch(context.Background(), req, &w); err != nil {
			h.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			h.Fatal(err)
		}
		buf = b
		return len(b)
	}
}

// CheckAgent checks the agent with all its metrics, as agenttest.Test does.
func (h *Harness) CheckAgent() {
	h.Helper()
	transporttest.Test(h.TB, h.transport, h.IDs()...)
}

// CheckNamesAndHelp checks that the file pmns has the names and PMIDs of all metrics
// and no others in the domain. It checks that a, which is the agent with help texts,
// has a short help text for each metric and its instance domain.
func (h *Harness) CheckNamesAndHelp(pmns string, a agents.Agent) {
	h.Helper()
	tree, err := pmnsload.Load(pmns, pmnsload.Options{Preprocess: true, Unique: true})
	if err != nil {
		h.Fatal(err)
	}
	names := 0
	for e := range tree.All("") {
		if e.PMID.Domain() != h.Domain {
			continue
		}
		names++
		if _, ok := h.Metrics[e.Name]; !ok || h.ID(e.Name) != e.PMID {
			h.Errorf("%s %v is in the PMNS but not in the tables", e.Name, e.PMID)
		}
	}
	if names != len(h.Metrics) {
		h.Errorf("%d names in the PMNS, %d metrics", names, len(h.Metrics))
	}
	texter := a.(agents.Texter)
	for name, m := range h.Metrics {
		if text, err := texter.Text(h.Context(), agents.Origin{}, h.ID(name), true); err != nil || len(text) > 80 {
			h.Errorf("help of %s: %q, %v", name, text, err)
		}
		if m.InDom == nil {
			continue
		}
		if text, err := texter.InDomText(h.Context(), agents.Origin{}, pdu.NewInDom(h.Domain, m.InDom.Serial), true); err != nil || len(text) > 80 {
			h.Errorf("help of indom %d: %q, %v", m.InDom.Serial, text, err)
		}
	}
}

// valueText returns a value of a metric of type typ as text.
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
