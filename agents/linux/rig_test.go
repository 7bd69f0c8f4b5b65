package linux

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A rig is an agent for a tree, and a client of it.
type rig struct {
	tb      testing.TB
	root    string
	agent   agents.Agent
	conduit agents.Conduit
	metrics map[string]pmda.Metric // by name
}

func newRig(tb testing.TB, o Options, addrs ...ipv4) *rig {
	tb.Helper()
	if o.CacheDir == "" {
		o.CacheDir = filepath.Join(tb.TempDir(), "none") // ids are not kept
	}
	if o.ConfDir == "" {
		o.ConfDir = filepath.Join(tb.TempDir(), "none")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h := newHost(60, o)
	h.ipv4 = func() ([]ipv4, error) { return addrs, nil }
	// Help texts take time to read.
	a, err := pmda.New(h.config())
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, root: o.Root, agent: a, conduit: agents.Inline(a), metrics: make(map[string]pmda.Metric)}
	tb.Cleanup(func() { r.conduit.Close() })
	for _, m := range newHost(60, o).metrics() {
		r.metrics[m.Name] = m
	}
	return r
}

// newTree writes files below a directory. A name that ends in / is one.
func newTree(tb testing.TB, files map[string]string) (root string) {
	tb.Helper()
	root = tb.TempDir()
	for name, text := range files {
		writeFile(tb, root, name, text)
	}
	return root
}

func writeFile(tb testing.TB, root, name, text string) {
	tb.Helper()
	path := filepath.Join(root, name)
	err := os.MkdirAll(filepath.Dir(path), 0o777)
	switch to, isLink := strings.CutPrefix(text, "-> "); {
	case err != nil:
	case strings.HasSuffix(name, "/"):
		err = os.MkdirAll(path, 0o777)
	case isLink:
		err = os.Symlink(to, path)
	default:
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (r *rig) id(name string) pdu.PMID {
	m, ok := r.metrics[name]
	if !ok {
		r.tb.Fatalf("no metric %s", name)
	}
	return pdu.NewPMID(60, m.Cluster, m.Item)
}

// fetch returns the values of a metric as text: "5", "vda=5 vdb=6", or an error.
func (r *rig) fetch(name string) string {
	r.tb.Helper()
	var res pdu.Result
	if err := agenttest.Do(r.conduit, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{r.id(name)}}, &res); err != nil {
		return err.Error()
	}
	set := res.Sets[0]
	if set.Err != 0 {
		return set.Err.Error()
	}
	names := map[int32]string{}
	if d := r.metrics[name].InDom; d != nil && len(set.Values) > 0 {
		for _, i := range r.instances(d.Serial) {
			names[i.ID] = i.Name
		}
	}
	var words []string
	for _, v := range set.Values {
		text := valueText(v, r.metrics[name].Type)
		if v.Inst != pdu.NoInst {
			text = strings.ReplaceAll(names[v.Inst], " ", "_") + "=" + text
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

func (r *rig) instances(serial int) []pdu.Inst {
	r.tb.Helper()
	var in pdu.Instance
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(60, serial), Inst: pdu.NoInst}
	if err := agenttest.Do(r.conduit, agents.Origin{}, req, &in); err != nil {
		r.tb.Fatal(err)
	}
	return in.Insts
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
		return fmt.Sprint(math.Float32frombits(be32(b)))
	case v.Type == pdu.MetricDouble:
		return fmt.Sprint(math.Float64frombits(uint64(be32(b))<<32 | uint64(be32(b[4:]))))
	case len(b) == 8:
		return fmt.Sprint(uint64(be32(b))<<32 | uint64(be32(b[4:])))
	default:
		return fmt.Sprintf("%v %x", v.Type, b)
	}
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// want compares values with what they are to be.
func (r *rig) want(values map[string]string) {
	r.tb.Helper()
	for name, want := range values {
		if got := r.fetch(name); got != want {
			r.tb.Errorf("%s\n got %q\nwant %q", name, got, want)
		}
	}
}

func addr4(label, addr string) ipv4 { return ipv4{label, netip.MustParseAddr(addr)} }
