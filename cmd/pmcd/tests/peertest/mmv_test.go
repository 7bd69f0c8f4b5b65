package peertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/mmv"
	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// startMMV starts pmdammv and our agent for the same files.
func startMMV(t *testing.T) (dir string, c, ours transport.Transport) {
	t.Helper()
	peer.Require(t)
	dir = mmvDir(t)
	c = startPMDA(t, "mmv", 70, "-U", "root")
	a, err := mmv.New(70)
	if err != nil {
		t.Fatal(err)
	}
	ours = transport.Inline(a)
	t.Cleanup(func() { ours.Close() })
	return dir, c, ours
}

// mmvDir makes a directory for files, and PCP_TMP_DIR its parent.
func mmvDir(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("PCP_TMP_DIR", tmp)
	dir := filepath.Join(tmp, "mmv")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// try is ask for requests that may fail. It returns the reply, or the error, as text.
func try[T any, P interface {
	*T
	pdu.Message
}](tr transport.Transport, req pdu.Message, show func(T) string) string {
	reply := P(new(T))
	if err := transporttest.Do(tr, agents.Origin{}, req, reply); err != nil {
		return "error: " + err.Error()
	}
	return show(*reply)
}

func show[T any](v T) string { return fmt.Sprintf("%+v", v) }

// pmids leaves out the status: pmdammv always says 0.
func pmids(m pdu.PMNSIDs) string { return fmt.Sprint(m.PMIDs) }

// compareMMV compares all that the agents say about all metrics, except control metrics. It
// returns the number of metrics. differ has parts of what differs for a reason, such as
// "mmv.f.m value".
func compareMMV(t *testing.T, c, ours transport.Transport, differ ...string) int {
	t.Helper()
	names := func(tr transport.Transport) []string {
		return slices.DeleteFunc(ask[pdu.PMNSNames](t, tr, &pdu.PMNSTraverse{Name: "mmv"}).Names, func(s string) bool {
			return strings.HasPrefix(s, "mmv.control.")
		})
	}
	both := func(what, c, ours string) {
		t.Helper()
		known := slices.ContainsFunc(differ, func(s string) bool { return strings.Contains(what, s) })
		if c != ours && !known {
			t.Errorf("%s\npmdammv has %s\nours        %s", what, c, ours)
		}
		if c == ours && known {
			t.Errorf("%s does not differ: %s", what, c)
		}
	}
	list := names(c)
	both("names", fmt.Sprint(list), fmt.Sprint(names(ours)))
	indoms := map[pdu.InDom]bool{}
	for _, name := range list {
		node := name
		for i := strings.LastIndexByte(node, '.'); i > 0; i = strings.LastIndexByte(node, '.') {
			node = node[:i]
			req := &pdu.PMNSChild{Name: node, Subtype: 1}
			both("children of "+node, try(c, req, show[pdu.PMNSNames]), try(ours, req, show[pdu.PMNSNames]))
			if node != "mmv" {
				req := &pdu.PMNSNames{Names: []string{node}}
				both("PMID of "+node, try(c, req, pmids), try(ours, req, pmids))
			}
		}
		req := &pdu.PMNSNames{Names: []string{name}}
		ids := try(ours, req, pmids)
		both(name, try(c, req, pmids), ids)
		if strings.HasPrefix(ids, "error") {
			continue
		}
		id := ask[pdu.PMNSIDs](t, ours, req).PMIDs[0]
		sorted := func(n pdu.PMNSNames) string { slices.Sort(n.Names); return show(n) }
		idReq := &pdu.PMNSIDs{PMIDs: []pdu.PMID{id}}
		both(name+" names", try(c, idReq, sorted), try(ours, idReq, sorted))
		d := &pdu.DescReq{PMID: id}
		both(name+" desc", try(c, d, show[pdu.Desc]), try(ours, d, show[pdu.Desc]))
		for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
			req := &pdu.TextReq{Ident: uint32(id), Kind: kind | pdu.TextPMID}
			text := func(m pdu.Text) string {
				if m.Text == "" {
					return "error: " + pdu.ErrnoText.Error() // clients are told that there is none
				}
				return m.Text
			}
			both(fmt.Sprint(name, " text ", kind), try(c, req, text), try(ours, req, text))
		}
		f := &pdu.Fetch{PMIDs: []pdu.PMID{id}}
		value := func(r pdu.Result) string { return show(r.Sets) }
		both(name+" value", try(c, f, value), try(ours, f, value))
		for _, kind := range []pdu.LabelKind{pdu.LabelItem, pdu.LabelCluster, pdu.LabelDomain} {
			ident := uint32(id)
			switch kind {
			case pdu.LabelCluster:
				ident = uint32(pdu.NewPMID(70, id.Cluster(), 0))
			case pdu.LabelDomain:
				ident = 70
			}
			req := &pdu.LabelReq{Kind: kind, Ident: ident}
			both(fmt.Sprint(name, " labels ", kind), try(c, req, labelsText), try(ours, req, labelsText))
		}
		if desc := ask[pdu.Desc](t, ours, d); desc.InDom != pdu.NoInDom {
			indoms[desc.InDom] = true
		}
	}
	for d := range indoms {
		req := &pdu.InstanceReq{InDom: d, Inst: pdu.NoInst}
		both("instances of "+d.String(), try(c, req, show[pdu.Instance]), try(ours, req, show[pdu.Instance]))
		for _, kind := range []pdu.LabelKind{pdu.LabelInDom, pdu.LabelInstances} {
			req := &pdu.LabelReq{Kind: kind, Ident: uint32(d)}
			both(fmt.Sprint(d, " labels ", kind), try(c, req, labelsText), try(ours, req, labelsText))
		}
	}
	f := &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(70, 0, 0), pdu.NewPMID(70, 0, 2), pdu.NewPMID(70, 4000, 1)}}
	value := func(r pdu.Result) string { return show(r.Sets) }
	both("control metrics", try(c, f, value), try(ours, f, value))
	return len(list)
}

func labelsText(m pdu.Labels) string {
	var b strings.Builder
	for _, s := range m.Sets {
		fmt.Fprintf(&b, "%d %d %s", s.Inst, s.Err, s.JSON)
		for _, l := range s.Labels {
			fmt.Fprintf(&b, " %s=%s (%x)", s.Name(l), s.Value(l), l.Flags)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Names, descriptors, instances, labels, texts and values of files of all versions are those of
// pmdammv.
func TestMMV(t *testing.T) {
	dir, c, ours := startMMV(t)
	if n := compareMMV(t, c, ours); n != 0 {
		t.Errorf("%d metrics without files", n)
	}
	for version := int32(1); version <= 3; version++ {
		f := mmvtest.Sample(version)
		f.Flags = 0
		f.Write(t, dir, fmt.Sprint("v", version))
		f.Flags = 4 // sentinel
		f.Cluster += 20
		f.Write(t, dir, fmt.Sprint("s", version))
	}
	f := mmvtest.Sample(1)
	f.Flags, f.Cluster = 1, 77 // no prefix
	f.Write(t, dir, "noprefix")
	mmvtest.Sample(2).Write(t, dir, "a.b")
	mmvtest.Sample(2).Write(t, dir, "bad-name")
	mmvtest.Sample(2).Write(t, dir, ".hidden")
	f = mmvtest.Sample(2)
	f.Metrics[0].Name = "a." + strings.Repeat("long", 40)
	f.InDoms[0].Insts[0].Name = strings.Repeat("long ", 40)
	f.Write(t, dir, "long")
	// pmdammv has texts only for metrics with values, although their offsets are in the metrics.
	// Of a label in an object, it drops the name of the object, unless there are other labels.
	if n := compareMMV(t, c, ours, "without text", "none text", "nosupport text", "70.18433 labels indom", "70.59393 labels indom"); n != 9*14 {
		t.Errorf("%d metrics", n)
	}
}

// Files that share clusters, instance domains and names.
func TestMMVShared(t *testing.T) {
	dir, c, ours := startMMV(t)
	for i, name := range []string{"a", "b", "c"} {
		n := int32(i)
		(&mmvtest.File{Cluster: 5,
			InDoms: []mmvtest.InDom{{Serial: 1, Insts: []mmvtest.Inst{{ID: 9, Name: "nine of " + name}, {ID: 3 - n, Name: name}}}},
			Metrics: []mmvtest.Metric{
				{Name: "m", Item: 1, Sem: 3, Type: 2, InDom: 1, Values: []mmvtest.Value{{Inst: 3 - n, Data: i}}},
				{Name: "n", Item: uint32(10 + i), Sem: 3, Type: 2, Values: []mmvtest.Value{{Data: i}}},
			},
		}).Write(t, dir, name)
	}
	chosen := func(name string, cluster int32, flags uint32, metric string) {
		(&mmvtest.File{Cluster: cluster, Flags: flags, Metrics: []mmvtest.Metric{
			{Name: metric, Item: 1, Sem: 3, Values: []mmvtest.Value{{Data: int32(len(name))}}},
		}}).Write(t, dir, name)
	}
	chosen("d", 0, 0, "m")
	chosen("e", 4095, 0, "m")
	chosen("f", 0, 0, "m")
	chosen("dup1", 0, 1, "same")
	chosen("dup2", 0, 1, "same") // the second one has no metric
	if n := compareMMV(t, c, ours); n != 10 {
		t.Errorf("%d metrics", n)
	}
	// The clusters of others change.
	if err := os.Remove(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	if n := compareMMV(t, c, ours); n != 9 {
		t.Errorf("%d metrics", n)
	}
}

// Files that are not accepted, or only in part. For those that could make pmdammv crash, see the
// tests of package mmv.
func TestMMVRejected(t *testing.T) {
	for _, tt := range []struct {
		name   string
		off    int
		data   any
		size   int
		differ []string
	}{
		{name: "magic", off: 1, data: "X"},
		{name: "version", off: 4, data: int32(4)},
		{name: "in flux", off: 16, data: uint64(0)},
		{name: "no generation", off: 8, data: [2]uint64{}},
		{name: "one section", off: 24, data: int32(1)},
		{name: "many sections", off: 24, data: int32(1000000)},
		{name: "dead process", off: 28, data: [2]int32{2, 1 << 30}},
		{name: "living process", off: 28, data: [2]int32{2, int32(os.Getpid())}},
		{name: "process without flag", off: 32, data: int32(1 << 30)},
		{name: "cluster", off: 36, data: int32(4096)},
		{name: "unknown section", off: 40, data: int32(99)},
		{name: "no header", size: 39},
		{name: "header only", size: 40},
		{name: "no section", size: 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, c, ours := startMMV(t)
			f := mmvtest.Sample(1)
			f.InDoms, f.Metrics = nil, f.Metrics[:8]
			f.Write(t, dir, "right")
			b, _ := f.Append()
			if tt.data != nil {
				copy(b[tt.off:], mmvtest.Bytes(tt.data))
			}
			if tt.size > 0 {
				b = b[:tt.size]
			}
			mmvtest.Write(t, dir, "wrong", b)
			compareMMV(t, c, ours, tt.differ...)
			want := 8
			if strings.Contains(tt.name, "process") && tt.name != "dead process" {
				want = 16
			}
			if n := compareMMV(t, c, ours, tt.differ...); n != want {
				t.Errorf("%d metrics, want %d", n, want)
			}
		})
	}
}

// A store has the same result, as far as 6.0.3 has the form of 7.2.
func TestMMVStore(t *testing.T) {
	dir, c, ours := startMMV(t)
	mmvtest.Sample(1).Write(t, dir, "s")
	word := pdu.Value{Inst: pdu.NoInst, Word: 1}
	store := func(tr transport.Transport, id pdu.PMID, values ...pdu.Value) string {
		var reply pdu.Error
		if err := transporttest.Do(tr, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Values: values}}}, &reply); err != nil {
			return err.Error()
		}
		return fmt.Sprint(reply.Code)
	}
	for _, tt := range []struct {
		id     pdu.PMID
		values []pdu.Value
	}{
		{pdu.NewPMID(70, 0, 0), []pdu.Value{word}},
		{pdu.NewPMID(70, 0, 0), []pdu.Value{word, word}},
		{pdu.NewPMID(70, 0, 2), []pdu.Value{word}},
		{pdu.NewPMID(70, 1, 1), []pdu.Value{word}},
		{pdu.NewPMID(70, 99, 1), []pdu.Value{word}},
	} {
		same(t, tt.id.String(), store(c, tt.id, tt.values...), store(ours, tt.id, tt.values...))
	}
	flags := func(tr transport.Transport) int32 {
		return ask[pdu.Result](t, tr, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(70, 0, 0)}}).Sec
	}
	same(t, "flags after a reload", flags(c), flags(ours))
	same(t, "flags after that", flags(c), flags(ours))
}

// Files of PCP's Python module, which uses PCP's library. The program ends before the agents
// read the files.
func TestMMVPython(t *testing.T) {
	dir, c, ours := startMMV(t)
	const python = "/usr/bin/python3" // python3-pcp is for Debian's
	out, err := exec.Command(python, "testdata/mmv.py", "f").CombinedOutput()
	if strings.Contains(string(out), "ModuleNotFoundError") || errors.Is(err, fs.ErrNotExist) {
		testutil.Missing(t, "python3-pcp")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); err != nil {
		t.Fatal(err)
	}
	if n := compareMMV(t, c, ours); n != 8 {
		t.Errorf("%d metrics", n)
	}
	id := ask[pdu.PMNSIDs](t, ours, &pdu.PMNSNames{Names: []string{"mmv.f.counter"}}).PMIDs[0]
	set := ask[pdu.Result](t, ours, &pdu.Fetch{PMIDs: []pdu.PMID{id}}).Sets[0]
	if len(set.Values) != 2 || set.Values[0].Word != 2 {
		t.Errorf("values %v", set)
	}
}

// The files of a pmproxy that runs, and of an application, are the same for PCP's clients of our
// pmcd and of PCP's. The lines of pmcd.conf name a file that does not exist.
func TestMMVPMProxy(t *testing.T) {
	peer.Require(t)
	cfg := peer.Config{PMNS: "root {\n pmcd\n mmv 70:*:*\n pmproxy 4:*:*\n}\npmcd {\n numagents 2:0:2\n}\n"}
	lines := func(file string) []string {
		return []string{
			"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so",
			"mmv 70 dso mmv_init " + file, "pmproxy 4 dso pmproxy_init " + file,
		}
	}
	cfg.Agents = lines("/var/lib/pcp/pmdas/mmv/pmda_mmv.so")
	c := peer.StartT(t, peer.CPmcd, cfg)
	tmp := filepath.Join(c.Dir, "tmp")
	for _, name := range []string{"mmv", "pmproxy"} {
		if err := os.MkdirAll(filepath.Join(tmp, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Agents, cfg.Env = lines("/no/such/pmda_mmv.so"), []string{"PCP_TMP_DIR=" + tmp}
	ours := peer.StartT(t, path, cfg)
	mmvtest.Sample(2).Write(t, filepath.Join(tmp, "mmv"), "app")
	startProxy(t, c)

	show := func(d *peer.Daemon, args string) string {
		t.Helper()
		out, err := d.Run(t.Context(), peer.TCP4, client(strings.Fields(args)...))
		if err != nil {
			t.Fatal(err)
		}
		return out.Stdout + out.Stderr
	}
	testutil.Eventually(t, "pmproxy has written its files", func() bool {
		return strings.Contains(show(ours, "pminfo -h {host} pmproxy"), "pmproxy.pid")
	})
	// Without the control metrics, which differ since 7.2.
	const proxy = " pmproxy.pid pmproxy.map pmproxy.mem pmproxy.cpu pmproxy.series pmproxy.webgroup "
	for _, args := range []string{
		"pminfo -h {host} mmv.app" + proxy, "pminfo -h {host} -dmtT mmv.app.int32 mmv.app.by.colour" + proxy, "pminfo -h {host} -l" + proxy,
		"pminfo -h {host} -f mmv.app" + proxy, "pmprobe -h {host} -I mmv.app" + proxy,
		"pmval -h {host} -s 1 mmv.app.int32", "pmval -h {host} -s 1 -i green mmv.app.by.text",
		"pminfo -h {host} -f no.such mmv.none pmproxy.none mmv.app.by",
	} {
		// pmproxy writes values at times of its own.
		var theirs, got string
		alike := func() bool { theirs, got = show(c, args), show(ours, args); return theirs == got }
		if !peer.Until(peer.Hangs, alike) {
			t.Errorf("%s\nwith PCP's pmcd: %s\nwith ours: %s", args, theirs, got)
		}
	}
	if out := show(ours, "pmstore -h {host} mmv.control.debug appl0"); !strings.Contains(out, `new value="appl0"`) {
		t.Error(out)
	}
	if out := show(ours, "pmstore -h {host} mmv.control.reload 1"); !strings.Contains(out, `new value=1`) {
		t.Error(out)
	}
	if out := show(ours, "pmstore -h {host} mmv.app.int32 1"); !strings.Contains(out, "No permission") {
		t.Error(out)
	}
	if got := show(ours, "pminfo -h {host} -f mmv.control.files mmv.control.reload"); strings.Count(got, "value") != 2 {
		t.Error(got)
	}
	if !strings.Contains(ours.Log(), "mmv: "+filepath.Join(tmp, "mmv")+": 1 files, 14 metrics") {
		t.Errorf("log: %s", ours.Log())
	}
}

// Files of other writers, PCP's libraries for C and Python and github.com/performancecopilot/speed
// for Go, are the same to both agents.
func TestMMVOtherWriters(t *testing.T) {
	dir, c, ours := startMMV(t)
	const golden = "../../../../internal/mmvformat/testdata/"
	files := peer.Must(filepath.Glob(golden + "*.mmv"))(t)
	if len(files) != 6 {
		t.Fatalf("files %q", files)
	}
	for _, path := range files {
		b := peer.Must(os.ReadFile(path))(t)
		mmvtest.Write(t, dir, strings.TrimSuffix(filepath.Base(path), ".mmv"), b)
	}
	// The time of an activity goes on; NaN is no value in ours, as in 7.2; for texts see TestMMV.
	// Of two labels in an object, pmdammv names one.
	if n := compareMMV(t, c, ours, "mmv.c_v3.running value", "mmv.double value", "mmv.c_v1.none text", "70.47109 labels instances"); n != 40 {
		t.Errorf("%d metrics", n)
	}
}
