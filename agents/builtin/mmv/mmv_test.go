package mmv

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

var sampleValues = map[string]string{
	"mmv.s.int32": "-32", "mmv.s.uint32": "2147483648", "mmv.s.int64": "-64", "mmv.s.uint64": "9223372036854775808",
	"mmv.s.float": "1.5", "mmv.s.double": "-2.25", "mmv.s.string": `"hello"`, "mmv.s.elapsed": "1000",
	"mmv.s.by.colour": "3=30 1=10 2=20", "mmv.s.by.zero": "0=7", "mmv.s.by.none": "",
	"mmv.s.by.text": `3="" 1="g"`, "mmv.s.without": pdu.ErrnoInst.Error(), "mmv.s.nosupport": pdu.ErrnoAppVersion.Error(),
}

func TestAgent(t *testing.T) {
	for version := int32(mmvformat.Version1); version <= mmvformat.Version3; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			dir := t.TempDir()
			mmvtest.Sample(version).Write(t, dir, "s")
			c := newClient(t, dir)
			names := c.names()
			if len(names) != len(sampleValues) {
				t.Errorf("%d names: %q", len(names), names)
			}
			c.want(sampleValues)
			cluster := 1
			if version == mmvformat.Version3 {
				cluster = 9
			}
			var ids []pdu.PMID
			for _, name := range names {
				id := c.id(name)
				if got, err := do[pdu.PMNSNames](c, &pdu.PMNSIDs{PMIDs: []pdu.PMID{id}}); err != nil || !slices.Equal(got.Names, []string{name}) || id.Cluster() != cluster {
					t.Errorf("%s is %v, which is %v, %v", name, id, got.Names, err)
				}
				if name != "mmv.s.nosupport" { // agenttest wants a type
					ids = append(ids, id)
				}
			}
			agenttest.Test(t, c.agent, ids...)
			for name, want := range map[string]string{
				"int32": "0 3 1048576 -", "uint32": "1 1 1052672 -", "int64": "2 4 1056768 -", "uint64": "3 1 1060864 -",
				"elapsed": fmt.Sprintf("2 1 %d -", uint32(pdu.Usec)), "by.colour": fmt.Sprintf("3 1 1081344 %d", cluster<<11|1), "nosupport": "-1 3 1101824 -",
			} {
				d, err := do[pdu.Desc](c, &pdu.DescReq{PMID: c.id("mmv.s." + name)})
				serial := "-"
				if d.InDom != pdu.NoInDom {
					serial = fmt.Sprint(d.InDom.Serial())
				}
				if got := fmt.Sprintf("%d %d %d %s", d.ValueType, d.Sem, uint32(d.Units), serial); err != nil || got != want {
					t.Errorf("%s: descriptor %s, %v, want %s", name, got, err, want)
				}
			}
		})
	}
}

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	mmvtest.Sample(1).Write(t, dir, "s")
	c := newClient(t, dir)
	ask := func(ident uint32, kind int32) string {
		reply, err := do[pdu.Text](c, &pdu.TextReq{Ident: ident, Kind: pdu.TextKind(kind)})
		if err != nil {
			return err.Error()
		}
		return reply.Text
	}
	none := pdu.ErrnoText.Error()
	for _, tt := range []struct {
		name          string
		oneline, full string
	}{
		{"mmv.s.int32", "short text of int32", none},
		{"mmv.s.uint32", none, none},
		{"mmv.s.by.zero", "short text of by.zero", "Full text of\nby.zero."},
		{"mmv.control.files", "Memory mapped file count", "The number of files whose metrics are exported."},
	} {
		id := uint32(c.id(tt.name))
		if got := ask(id, int32(pdu.TextOneLine|pdu.TextPMID)); got != tt.oneline {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.oneline)
		}
		if got := ask(id, int32(pdu.TextHelp|pdu.TextPMID)); got != tt.full {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.full)
		}
	}
	indom := uint32(pdu.NewInDom(70, 1<<11|1))
	if one, full := ask(indom, int32(pdu.TextOneLine|pdu.TextInDom)), ask(indom, int32(pdu.TextHelp|pdu.TextInDom)); one != "colours" || full != "Names of colours." {
		t.Errorf("instance domain: %q, %q", one, full)
	}
	if got := ask(indom+1, int32(pdu.TextOneLine|pdu.TextInDom)); got != none {
		t.Errorf("instance domain without a text: %q", got)
	}

	// A one-line text is one line, whatever the file says.
	lines := one(1)
	lines.Metrics[0].Short, lines.Metrics[0].Help = "first\nsecond", "first\nsecond"
	lines.Write(t, dir, "lines")
	empty := one(1)
	empty.Metrics[0].Short = "\nsecond"
	empty.Write(t, dir, "empty")
	for _, tt := range []struct{ name, oneline, full string }{{"mmv.lines.m", "first", "first\nsecond"}, {"mmv.empty.m", none, none}} {
		id := uint32(c.id(tt.name))
		if got := ask(id, int32(pdu.TextOneLine|pdu.TextPMID)); got != tt.oneline {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.oneline)
		}
		if got := ask(id, int32(pdu.TextHelp|pdu.TextPMID)); got != tt.full {
			t.Errorf("%s: full text %q, want %q", tt.name, got, tt.full)
		}
	}
}

func TestLabels(t *testing.T) {
	dir := t.TempDir()
	mmvtest.Sample(3).Write(t, dir, "s")
	more := mmvtest.File{Cluster: 9, Labels: []mmvformat.Label{
		mmvtest.Label(mmvformat.LabelCluster, 9, -1, `{"of":"another"}`),
		mmvtest.Label(mmvformat.LabelCluster, 9, -1, `no JSON`),
		mmvtest.Label(mmvformat.LabelCluster, 8, -1, `{"not":"mine"}`),
		mmvtest.Label(mmvformat.LabelInstances, 1, 1, `{"c":"g"}`),
	}}
	more.Write(t, dir, "t")
	c := newClient(t, dir)
	colours := pdu.NewInDom(70, 9<<11|1)
	for _, tt := range []struct {
		kind  pdu.LabelKind
		ident uint32
		want  string
	}{
		{pdu.LabelDomain, 70, `{"agent":"mmv"}`},
		{pdu.LabelCluster, uint32(pdu.NewPMID(70, 9, 0)), `{"of":"another"}`},
		{pdu.LabelItem, uint32(pdu.NewPMID(70, 9, 1)), `{"n":2,"note":[true,null]}`},
		{pdu.LabelItem, uint32(pdu.NewPMID(70, 9, 2)), ``},
		{pdu.LabelInDom, uint32(colours), `{"deep.a":1,"deep.b":"x"}`},
		{pdu.LabelInstances, uint32(colours), `{"c":"r","d":false} {"c":"g"} {"c":"b"}`},
	} {
		reply, err := do[pdu.Labels](c, &pdu.LabelReq{Kind: tt.kind, Ident: tt.ident})
		var sets []string
		for _, s := range reply.Sets {
			sets = append(sets, string(s.JSON))
			for _, l := range s.Labels {
				if want := s.Name(l) == "note"; want != (pdu.LabelKind(l.Flags)&pdu.LabelOptional != 0) {
					t.Errorf("%s: flags %x", s.Name(l), l.Flags)
				}
			}
		}
		if got := strings.Join(sets, " "); err != nil || got != tt.want {
			t.Errorf("kind %d of %d: %s, %v, want %s", tt.kind, tt.ident, got, err, tt.want)
		}
	}
	if got := strings.Count(c.log.String(), "ignoring a label"); got != 1 {
		t.Errorf("%d warnings: %s", got, &c.log)
	}
}

// With the flag, there are values that are no values. Without, they are values.
func TestSentinel(t *testing.T) {
	ones := [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	low := mmvtest.Data(uint32(math.MaxUint32))
	f := mmvtest.File{}
	add := func(typ mmvformat.Type, data any) {
		n := uint32(len(f.Metrics))
		f.Metrics = append(f.Metrics, mmvtest.Metric{
			Name: fmt.Sprint("m", n), Item: n, Type: typ, Sem: 3, Values: []mmvtest.Value{{Data: data}},
		})
	}
	add(mmvformat.Int32, ones)
	add(mmvformat.Uint32, low)
	add(mmvformat.Int64, ones)
	add(mmvformat.Uint64, ones)
	add(mmvformat.Float, float32(math.NaN()))
	add(mmvformat.Double, math.NaN())
	add(mmvformat.String, "")
	add(mmvformat.Elapsed, ones)
	dir := t.TempDir()
	for _, tt := range []struct {
		flags uint32
		want  []string
	}{
		{0, []string{"-1", "4294967295", "-1", "18446744073709551615", "NaN", "NaN", `""`, "-1"}},
		{mmvformat.FlagSentinel, []string{"", "4294967295", "", "", "", "", "", ""}},
	} {
		f.Flags = tt.flags
		f.Write(t, dir, "s")
		c := newClient(t, dir)
		for i, want := range tt.want {
			if got := c.value(fmt.Sprint("mmv.s.m", i)); got != want {
				t.Errorf("flags %d, type %d: %s, want %s", tt.flags, f.Metrics[i].Type, got, want)
			}
		}
	}
}

// A measurement that is under way counts up to now.
func TestElapsed(t *testing.T) {
	dir := t.TempDir()
	f := mmvtest.File{Metrics: []mmvtest.Metric{{Name: "e", Type: mmvformat.Elapsed, Values: []mmvtest.Value{{Data: 500}}}}}
	path := f.Write(t, dir, "s")
	_, l := f.Append()
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.s.e": "500"})
	now := time.Unix(1000, 0)
	c.now = func() time.Time { return now }
	mmvtest.Poke(t, path, l.Values+8, -now.Add(-2*time.Second).UnixMicro())
	c.want(map[string]string{"mmv.s.e": "2000500"})
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	metric := func(names ...string) *mmvtest.File {
		f := new(mmvtest.File)
		for i, name := range names {
			f.Metrics = append(f.Metrics, mmvtest.Metric{Name: name, Item: uint32(i), Sem: 3, Values: []mmvtest.Value{{Data: int32(i)}}})
		}
		return f
	}
	long := strings.Repeat("x", 100)
	metric("m", "m.below", "9bad", "_under", "no-minus", "", "a..b", "end.").Write(t, dir, "f")
	metric("m").Write(t, dir, "with.dot")
	metric("m").Write(t, dir, "with-minus")
	metric("m").Write(t, dir, ".hidden")
	metric(long).Write(t, dir, "long")
	f := metric("m", "f.m")
	f.Flags = mmvformat.FlagNoPrefix
	f.Write(t, dir, "noprefix")
	metric("files", "mine").Write(t, dir, "control")
	c := newClient(t, dir)
	want := []string{"mmv.f._under", "mmv.f.9bad", "mmv.f.m", "mmv.long." + long, "mmv.m", "mmv.with.dot.m"}
	slices.Sort(want)
	if got := c.names(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The names of one file with a problem are one line.
	if got := strings.Count(c.log.String(), "no valid name"); got != 2 {
		t.Errorf("%d lines: %s", got, &c.log)
	}
	c.want(map[string]string{"mmv.control.files": "6", "mmv.control.metrics": "7", "mmv.control.mine": "1"})
	for name, want := range map[string]error{"mmv": pdu.ErrnoName, "mmv.f": pdu.ErrnoName, "mmv.none": pdu.ErrnoName, "mmv.m.x": pdu.ErrnoName} {
		if _, err := c.PMID(t.Context(), agents.Origin{}, name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	children, err := c.Children(t.Context(), agents.Origin{}, "mmv")
	if got := fmt.Sprint(children); err != nil || got != "[{with false} {m true} {long false} {f false} {control false}]" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := c.Traverse(t.Context(), agents.Origin{}, "mmv.none"); !errors.Is(err, pdu.ErrnoName) {
		t.Error(err)
	}
}

// Files whose names begin with the names of others, and files that bring names into them. The
// trees of names of files that have not changed are used again.
func TestTrees(t *testing.T) {
	dir := t.TempDir()
	file := func(cluster int32, flags uint32, names ...string) *mmvtest.File {
		f := &mmvtest.File{Cluster: cluster, Flags: flags}
		for i, name := range names {
			f.Metrics = append(f.Metrics, mmvtest.Metric{
				Name: name, Item: uint32(i), Sem: 3, Type: mmvformat.Int64, Values: []mmvtest.Value{{Data: 10*int(cluster) + i}},
			})
		}
		return f
	}
	many := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"}
	file(1, 0, append(many, "b.x", "b.y")...).Write(t, dir, "a")
	file(2, 0, "y", "z", "n0").Write(t, dir, "a.b")
	file(3, 0, "deep").Write(t, dir, "a.b.z.c") // below a metric
	file(4, 0, "deep").Write(t, dir, "a.new.c") // in a part that no file has
	file(5, mmvformat.FlagNoPrefix, "a.b.w", "a.n0", "top").Write(t, dir, "np")
	c := newClient(t, dir)
	want := map[string]string{"mmv.a.b.x": "20", "mmv.a.b.y": "21", "mmv.a.b.z": "21", "mmv.a.b.n0": "22", "mmv.a.new.c.deep": "40", "mmv.a.b.w": "50", "mmv.top": "52"}
	for i, name := range many {
		want["mmv.a."+name] = fmt.Sprint(10 + i)
	}
	check := func() {
		t.Helper()
		if got := c.names(); len(got) != len(want) {
			t.Errorf("%d names, want %d: %q", len(got), len(want), got)
		}
		c.want(want)
		c.want(map[string]string{"mmv.control.metrics": fmt.Sprint(len(want))})
	}
	check()
	// Without the files that come into that of a, they are gone from it.
	for _, name := range []string{"a.b", "a.new.c", "np"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mmv.a.b.z", "mmv.a.b.n0", "mmv.a.new.c.deep", "mmv.a.b.w", "mmv.top"} {
		delete(want, name)
	}
	want["mmv.a.b.z.c.deep"] = "30"
	check()
	file(6, 0, "m").Write(t, dir, "Z") // comes first
	want["mmv.Z.m"] = "60"
	check()
}

// Files with the same cluster share instance domains and metrics.
func TestSharedCluster(t *testing.T) {
	dir := t.TempDir()
	file := func(id int32, name string, value int) *mmvtest.File {
		return &mmvtest.File{Cluster: 5,
			InDoms:  []mmvtest.InDom{{Serial: 1, Insts: []mmvtest.Inst{{ID: 9, Name: "nine of " + name}, {ID: id, Name: name}}}},
			Metrics: []mmvtest.Metric{{Name: "m", Item: 1, Sem: 3, Type: mmvformat.Int64, InDom: 1, Values: []mmvtest.Value{{Inst: id, Data: value}}}},
		}
	}
	file(2, "two", 22).Write(t, dir, "a")
	file(1, "one", 11).Write(t, dir, "b")
	f := file(9, "x", 99)
	f.Metrics[0].Type, f.Metrics[0].Values[0].Data = mmvformat.Int32, int32(99)
	f.Write(t, dir, "c") // another type
	c := newClient(t, dir)
	c.want(map[string]string{"mmv.a.m": "2=22 1=11", "mmv.b.m": "2=22 1=11"})
	insts, err := c.Instances(t.Context(), agents.Origin{}, pdu.NewInDom(70, 5<<11|1))
	if got := fmt.Sprint(insts); err != nil || got != "[{9 nine of two} {2 two} {1 one}]" {
		t.Errorf("%s, %v", got, err)
	}
	names, err := c.Names(t.Context(), agents.Origin{}, pdu.NewPMID(70, 5, 1))
	if got := fmt.Sprint(names); err != nil || got != "[mmv.a.m mmv.b.m mmv.c.m]" {
		t.Errorf("%s, %v", got, err)
	}
	// Instances that the client selects, in the order of the instance domain.
	for _, tt := range []struct {
		profile pdu.InDomProfile
		want    string
	}{
		{pdu.InDomProfile{Exclude: true, Insts: []int32{1, 77, 2, 1}}, "[{2 22} {1 11}]"},
		{pdu.InDomProfile{Exclude: true, Insts: []int32{1}}, "[{1 11}]"},
		{pdu.InDomProfile{Exclude: true}, "[]"},
		{pdu.InDomProfile{Insts: []int32{2}}, "[{1 11}]"},
	} {
		tt.profile.InDom = pdu.NewInDom(70, 5<<11|1)
		var w pdu.ResultWriter
		w.Reset(nil, 0)
		err := c.Fetch(t.Context(), &agents.FetchRequest{
			PMIDs: []pdu.PMID{pdu.NewPMID(70, 5, 1)}, Profile: &pdu.Profile{InDoms: []pdu.InDomProfile{tt.profile}},
		}, &w)
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		var r pdu.Result
		if _, err := pdu.ParseInto(b, &r); err != nil {
			t.Fatal(err)
		}
		type pair struct {
			inst int32
			n    string
		}
		got := []pair{}
		for _, v := range r.Sets[0].Values {
			got = append(got, pair{v.Inst, text(0, r.Sets[0].Format, v)})
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%v: %v, want %s", tt.profile, got, tt.want)
		}
	}
}

func TestClusters(t *testing.T) {
	dir := t.TempDir()
	for name, cluster := range map[string]int32{"a": 0, "b": 2, "c": 0, "d": 1, "e": 0, "f": 4095, "g": 3} {
		(&mmvtest.File{Cluster: cluster, Metrics: []mmvtest.Metric{{Name: "m", Item: uint32(name[0]), Sem: 3}}}).Write(t, dir, name)
	}
	c := newClient(t, dir)
	for name, want := range map[string]int{"a": 1, "b": 2, "c": 3, "d": 1, "e": 4, "f": 4095, "g": 3} {
		if got := c.id("mmv." + name + ".m").Cluster(); got != want {
			t.Errorf("%s has cluster %d, want %d", name, got, want)
		}
	}
}
