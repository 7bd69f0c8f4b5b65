package simple

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

var (
	numfetch = pdu.NewPMID(Domain, 0, 0)
	color    = pdu.NewPMID(Domain, 0, 1)
	user     = pdu.NewPMID(Domain, 1, 2)
	sys      = pdu.NewPMID(Domain, 1, 3)
	now      = pdu.NewPMID(Domain, 2, 4)
	all      = []pdu.PMID{numfetch, color, user, sys, now}
)

// A harness is an agent with a simple.conf of its own.
type harness struct {
	t    *testing.T
	a    agents.Agent
	conf string       // path
	log  bytes.Buffer // tests may reset it
}

func newHarness(t *testing.T, conf string) *harness {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PCP_PMDAS_DIR", dir)
	r := &harness{t: t, conf: filepath.Join(dir, "simple", "simple.conf")}
	if err := os.Mkdir(filepath.Dir(r.conf), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write(conf)
	old := slog.Default()
	slog.SetDefault(slog.New(serve.NewHandler(&r.log, "pmda", slog.LevelInfo)))
	t.Cleanup(func() { slog.SetDefault(old) })
	var err error
	if r.a, err = New(Domain); err != nil {
		t.Fatal(err)
	}
	return r
}

// write replaces simple.conf. Each file gets its own modification time, because two
// writes within one tick of the file system's clock would have the same.
func (r *harness) write(text string) {
	r.t.Helper()
	at := time.Unix(1, 0)
	if st, err := os.Stat(r.conf); err == nil {
		at = st.ModTime().Add(1) // a nanosecond
	}
	if err := os.WriteFile(r.conf, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Chtimes(r.conf, at, at); err != nil {
		r.t.Fatal(err)
	}
}

func (r *harness) do(req, reply pdu.Message) error {
	return agenttest.Do(r.a, agents.Origin{Client: 1}, req, reply)
}

func (r *harness) fetch(ids ...pdu.PMID) []pdu.ValueSet {
	r.t.Helper()
	var res pdu.Result
	if err := r.do(&pdu.Fetch{PMIDs: ids}, &res); err != nil {
		r.t.Fatal(err)
	}
	return res.Sets
}

// show returns a value set as "inst=value ...", or its error.
func show(s pdu.ValueSet) string {
	if s.Err != 0 {
		return s.Err.Name()
	}
	var list []string
	for _, v := range s.Values {
		list = append(list, fmt.Sprintf("%d=%d", v.Inst, v.Word))
	}
	return strings.Join(list, " ")
}

func TestAgent(t *testing.T) {
	r := newHarness(t, "sec,min,hour\n")
	agenttest.Test(t, r.a, all...)
}

func TestValues(t *testing.T) {
	r := newHarness(t, "sec,min,hour\n")
	for i, want := range []string{"-1=1", "-1=2", "-1=3"} {
		s := r.fetch(numfetch, color)
		if got := show(s[0]); got != want {
			t.Errorf("fetch %d: simple.numfetch is %s, want %s", i, got, want)
		}
		want = fmt.Sprintf("0=%d 1=%d 2=%d", 1+i, 101+i, 201+i)
		if got := show(s[1]); got != want {
			t.Errorf("fetch %d: simple.color is %s, want %s", i, got, want)
		}
	}
	// A fetch of one color does not change the others.
	green := &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(Domain, 0), Exclude: true, Insts: []int32{1}}}}
	if got := r.fetchProfile(green, color); got != "1=104" {
		t.Errorf("simple.color of green: %s", got)
	}
	if got := show(r.fetch(color)[0]); got != "0=4 1=105 2=204" {
		t.Errorf("simple.color then: %s", got)
	}
}

func (r *harness) fetchProfile(p *pdu.Profile, id pdu.PMID) string {
	r.t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	if err := r.a.Fetch(r.t.Context(), &agents.FetchRequest{PMIDs: []pdu.PMID{id}, Profile: p}, &w); err != nil {
		r.t.Fatal(err)
	}
	b, err := w.Finish()
	if err != nil {
		r.t.Fatal(err)
	}
	var res pdu.Result
	if _, err := pdu.ParseInto(b, &res); err != nil {
		r.t.Fatal(err)
	}
	return show(res.Sets[0])
}

// After 256 fetches each color has its first value again.
func TestColorWraps(t *testing.T) {
	r := newHarness(t, "")
	seen := map[uint32]int{}
	for range 256 {
		seen[r.fetch(color)[0].Values[2].Word]++
	}
	if len(seen) != 256 || seen[0] != 1 || seen[255] != 1 {
		t.Errorf("blue has taken %d values in 256 fetches, 0 %d times, 255 %d times", len(seen), seen[0], seen[255])
	}
	if got := show(r.fetch(color)[0]); got != "0=1 1=101 2=201" {
		t.Errorf("simple.color in fetch 257: %s", got)
	}
}

func float(t *testing.T, s pdu.ValueSet) float64 {
	t.Helper()
	if len(s.Values) != 1 || len(s.Values[0].Block) != 8 {
		t.Fatalf("%v: %+v", s.PMID, s)
	}
	return math.Float64frombits(binary.BigEndian.Uint64(s.Values[0].Block))
}

func TestTimes(t *testing.T) {
	r := newHarness(t, "")
	s := r.fetch(user, sys, user)
	if float(t, s[0]) != float(t, s[2]) {
		t.Error("simple.time.user changes within a fetch")
	}
	first := float(t, s[0]) + float(t, s[1])
	deadline := time.Now().Add(testutil.Hangs)
	for {
		s = r.fetch(user, sys) // uses CPU time
		if float(t, s[0])+float(t, s[1]) > first {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("simple.time does not grow")
		}
	}
}

func TestDescriptors(t *testing.T) {
	r := newHarness(t, "")
	for _, tt := range []struct {
		id    pdu.PMID
		typ   pdu.MetricType
		sem   pdu.Sem
		units string
		indom pdu.InDom
	}{
		{numfetch, pdu.MetricU32, pdu.SemInstant, "none", pdu.NoInDom},
		{color, pdu.Metric32, pdu.SemInstant, "none", pdu.NewInDom(Domain, 0)},
		{user, pdu.MetricDouble, pdu.SemCounter, "sec", pdu.NoInDom},
		{sys, pdu.MetricDouble, pdu.SemCounter, "sec", pdu.NoInDom},
		{now, pdu.MetricU32, pdu.SemInstant, "none", pdu.NewInDom(Domain, 1)},
	} {
		var d pdu.Desc
		if err := r.do(&pdu.DescReq{PMID: tt.id}, &d); err != nil {
			t.Error(err)
		}
		if d.ValueType != tt.typ || d.Sem != tt.sem || d.Units.String() != tt.units || d.InDom != tt.indom {
			t.Errorf("%v is %+v", tt.id, d)
		}
		for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
			if err := r.do(&pdu.TextReq{Ident: uint32(tt.id), Kind: kind | pdu.TextPMID}, new(pdu.Text)); err != nil {
				t.Errorf("help text %v of %v: %v", kind, tt.id, err)
			}
			if tt.indom == pdu.NoInDom {
				continue
			}
			if err := r.do(&pdu.TextReq{Ident: uint32(tt.indom), Kind: kind | pdu.TextInDom}, new(pdu.Text)); err != nil {
				t.Errorf("help text %v of %v: %v", kind, tt.indom, err)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	r := newHarness(t, "hour,sec\n")
	for _, tt := range []struct {
		kind  pdu.LabelKind
		ident uint32
		want  string
	}{
		{pdu.LabelDomain, Domain, `-1 {"role":"testing"}`},
		{pdu.LabelInDom, uint32(pdu.NewInDom(Domain, 0)), `-1 {"indom_name":"color","model":"RGB"}`},
		{pdu.LabelInDom, uint32(pdu.NewInDom(Domain, 1)), `-1 {"indom_name":"time","unitsystem":"SI"}`},
		{pdu.LabelCluster, uint32(numfetch), ""},
		{pdu.LabelItem, uint32(color), ""},
		{pdu.LabelInstances, uint32(pdu.NewInDom(Domain, 0)), `0 ; 1 ; 2 `},
		{pdu.LabelInstances, uint32(pdu.NewInDom(Domain, 1)), `0 {"units":"hour"}; 1 {"units":"sec"}`},
	} {
		var l pdu.Labels
		if err := r.do(&pdu.LabelReq{Kind: tt.kind, Ident: tt.ident}, &l); err != nil {
			t.Errorf("%v: %v", tt.kind, err)
		}
		var list []string
		for _, s := range l.Sets {
			list = append(list, fmt.Sprintf("%d %s", s.Inst, s.JSON))
		}
		if got := strings.Join(list, "; "); got != tt.want {
			t.Errorf("%v of %#x: %s, want %s", tt.kind, tt.ident, got, tt.want)
		}
	}
}
