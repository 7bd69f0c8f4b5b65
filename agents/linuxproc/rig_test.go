package linuxproc

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
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
	host    *host
	agent   agents.Agent
	conduit agents.Conduit
	metrics map[string]pmda.Metric // by name
}

// newRig returns an agent whose client is the user of the test.
func newRig(tb testing.TB, o Options) *rig {
	tb.Helper()
	if o.AccessConf == "" {
		o.AccessConf = filepath.Join(tb.TempDir(), "none")
	}
	if o.HotConf == "" {
		o.HotConf = filepath.Join(tb.TempDir(), "none")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h := newHost(3, o)
	a, err := h.agent("") // help texts take time to read
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{tb: tb, host: h, agent: a, conduit: agents.Inline(a), metrics: make(map[string]pmda.Metric)}
	tb.Cleanup(func() { r.conduit.Close() })
	for _, m := range newHost(3, o).metrics() {
		r.metrics[m.Name] = m
	}
	r.identify(os.Geteuid(), os.Getegid())
	return r
}

// identify tells the agent who its client is.
func (r *rig) identify(uid, gid int) {
	r.attrs(map[pdu.AttrCode]string{pdu.AttrUserID: strconv.Itoa(uid), pdu.AttrGroupID: strconv.Itoa(gid)})
}

func (r *rig) attrs(values map[pdu.AttrCode]string) {
	var attrs []pdu.Attr
	for code, value := range values {
		attrs = append(attrs, pdu.Attr{Code: code, Value: []byte(value)})
	}
	r.conduit.Notify(agents.Notice{End: true, Attrs: attrs})
}

// newTree writes files below a directory. A name that ends in / is one, text
// that begins with "-> " is where a symbolic link points to.
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
	return pdu.NewPMID(3, m.Cluster, m.Item)
}

// fetch returns the values of a metric as text: "5", "1=5 2=6" by the ids of
// instances, or an error.
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
	if d := r.metrics[name].InDom; d != nil && d.Serial != indomProc && d.Serial != indomHot && len(set.Values) > 0 {
		for _, i := range r.instances(d.Serial) {
			names[i.ID] = i.Name
		}
	}
	var words []string
	for _, v := range set.Values {
		text := valueText(v, r.metrics[name].Type)
		switch name, ok := names[v.Inst]; {
		case ok:
			text = name + "=" + text
		case v.Inst != pdu.NoInst:
			text = fmt.Sprintf("%d=%s", v.Inst, text)
		}
		words = append(words, text)
	}
	return strings.Join(words, " ")
}

func (r *rig) instances(serial int) []pdu.Inst {
	r.tb.Helper()
	var in pdu.Instance
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(3, serial), Inst: pdu.NoInst}
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
	case len(b) == 8:
		return fmt.Sprint(int64(be32(b))<<32 | int64(be32(b[4:])))
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

// store stores a value and returns the error, "" for none.
func (r *rig) store(name string, v pdu.Value) string {
	v.Inst = pdu.NoInst
	set := pdu.ValueSet{PMID: r.id(name), Values: []pdu.Value{v}}
	if v.Block != nil {
		set.Format = pdu.FormatBlock
	}
	err := agenttest.Do(r.conduit, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{set}}, new(pdu.Error))
	if err != nil {
		return err.Error()
	}
	return ""
}

// labels returns those of an instance domain, or of its instances.
func (r *rig) labels(kind pdu.LabelKind, serial int) (list []string) {
	r.tb.Helper()
	var reply pdu.Labels
	req := &pdu.LabelReq{Kind: kind, Ident: uint32(pdu.NewInDom(3, serial))}
	if err := agenttest.Do(r.conduit, agents.Origin{}, req, &reply); err != nil {
		r.tb.Fatal(err)
	}
	for _, s := range reply.Sets {
		list = append(list, string(s.JSON))
	}
	return list
}
