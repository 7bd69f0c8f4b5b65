package pmcd

import (
	"context"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// TestDescriptorsAreThoseOf721 compares descriptors with a table that was extracted
// from PCP 6.0.3 and 7.2.1.
func TestDescriptorsAreThoseOf721(t *testing.T) {
	rows := map[string][]string{}
	for _, line := range lines(t, "testdata/metrics.tsv") {
		f := strings.Split(line, "\t")
		if f[7] != "6.0.3" {
			rows[f[0]] = f
		}
	}
	const domain = 77 // not pmcd's own, 2: nothing depends on it
	a := New(domain, "pmcd", newHost(), Config{})
	n := 0
	for cluster, c := range clusters {
		for _, m := range c {
			if m.name == "" {
				continue
			}
			n++
			f := rows[m.name]
			if f == nil {
				t.Errorf("%s: not in the table", m.name)
				continue
			}
			id := pdu.NewPMID(domain, cluster, m.item)
			got, err := a.Desc(context.Background(), agents.Origin{}, id)
			if err != nil {
				t.Fatal(err)
			}
			raw := make([]int, 6)
			for i, s := range strings.Split(f[6], ",") {
				raw[i], _ = strconv.Atoi(s)
			}
			want := pdu.Desc{PMID: id, InDom: pdu.NoInDom, Units: pdu.NewUnits(raw[0], raw[1], raw[2], raw[3], raw[4], raw[5])}
			if f[3] != "null" {
				serial, _ := strconv.Atoi(strings.TrimPrefix(f[3], "2."))
				want.InDom = pdu.NewInDom(domain, serial)
			}
			want.ValueType, want.Sem = got.ValueType, got.Sem // compared as text
			if id := strings.Replace(id.String(), "77", "2", 1); id != f[1] || got != want ||
				got.ValueType.String() != f[2] || got.Sem.String() != f[4] || got.Units.String() != f[5] {
				t.Errorf("%s: got %v %+v, want %v", m.name, id, got, f)
			}
		}
	}
	if n != len(rows) {
		t.Errorf("%d metrics, want %d", n, len(rows))
	}
}

func TestEachNameHasItsMetric(t *testing.T) {
	a := newAgent(newHost())
	n := 0
	for _, line := range lines(t, "testdata/pmns.txt") {
		f := strings.Split(line, "\t")
		id, err := pdu.ParsePMID(strings.ReplaceAll(f[1], ":", "."))
		if err != nil {
			t.Fatal(err)
		}
		if m := a.metric(id); m == nil || m.name != f[0] {
			t.Errorf("%v: got %+v, want %s", id, m, f[0])
		}
		n++
	}
	if n == 0 {
		t.Error("no names")
	}
}

func TestUnknownMetrics(t *testing.T) {
	a := newAgent(newHost())
	for _, id := range []pdu.PMID{id(0, 31), id(1, 11), id(1, 25), id(9, 0), id(4095, 1023), pdu.NewPMID(3, 0, 0)} {
		if _, err := a.Desc(context.Background(), agents.Origin{}, id); err != pdu.ErrnoPMID {
			t.Errorf("Desc(%v) = %v", id, err)
		}
		if vs := fetchAs(t, a, root, includeAll, id)[0]; vs.Err != pdu.ErrnoPMID || vs.PMID != id {
			t.Errorf("Fetch(%v) = %+v", id, vs)
		}
		if _, err := a.Text(context.Background(), agents.Origin{}, id, true); err != pdu.ErrnoText {
			t.Errorf("Text(%v) = %v", id, err)
		}
	}
}

func TestEachMetricHasHelp(t *testing.T) {
	a := newAgent(newHost())
	used := 0
	check := func(what, line, full string, err1, err2 error) {
		t.Helper()
		used++
		if err1 != nil || err2 != nil || len(line) < 10 || len(line) > 75 || strings.Contains(line, "\n") || full == "" {
			t.Errorf("%s: %q (%v), %q (%v)", what, line, err1, full, err2)
		}
		for s := range strings.SplitSeq(full, "\n") {
			if len(s) > 80 {
				t.Errorf("%s: long line %q", what, s)
			}
		}
	}
	ctx := context.Background()
	for cluster, c := range clusters {
		for _, m := range c {
			if m.name == "" {
				continue
			}
			line, err1 := a.Text(ctx, agents.Origin{}, id(cluster, m.item), true)
			full, err2 := a.Text(ctx, agents.Origin{}, id(cluster, m.item), false)
			check(m.name, line, full, err1, err2)
		}
	}
	for serial := 1; serial <= 6; serial++ {
		line, err1 := a.InDomText(ctx, agents.Origin{}, pdu.NewInDom(2, serial), true)
		full, err2 := a.InDomText(ctx, agents.Origin{}, pdu.NewInDom(2, serial), false)
		check("indom "+strconv.Itoa(serial), line, full, err1, err2)
	}
	if used != len(help()) {
		t.Errorf("%d texts, of which %d are of use", len(help()), used)
	}
	for _, indom := range []pdu.InDom{pdu.NewInDom(2, 0), pdu.NewInDom(2, 7), pdu.NewInDom(3, 1), pdu.NoInDom} {
		if s, err := a.InDomText(ctx, agents.Origin{}, indom, true); err != pdu.ErrnoText {
			t.Errorf("InDomText(%v) = %q, %v", indom, s, err)
		}
	}
}

// TestEachMetricHasValues fetches all metrics at once.
func TestEachMetricHasValues(t *testing.T) {
	h := newHost()
	a := New(2, "pmcd", h, pcpConfig(t))
	ids := metricIDs()
	for i, vs := range fetchAs(t, a, root, includeAll, ids...) {
		if vs.PMID != ids[i] || vs.Err != 0 || len(vs.Values) == 0 {
			t.Errorf("%s: %+v", a.metric(ids[i]).name, vs)
			continue
		}
		for _, v := range vs.Values {
			d, _ := a.Desc(context.Background(), agents.Origin{}, ids[i])
			decode(t, d.ValueType, &vs, v)
			if (v.Inst == pdu.NoInst) != (d.InDom == pdu.NoInDom) {
				t.Errorf("%s: instance %d", a.metric(ids[i]).name, v.Inst)
			}
		}
	}
}

// TestAgent is the suite that every agent has to pass.
func TestAgent(t *testing.T) {
	tr := transport.Inline(New(2, "pmcd", newHost(), pcpConfig(t)))
	defer tr.Close()
	transporttest.Test(t, tr, metricIDs()...)
}

func TestValues(t *testing.T) {
	one := func(v any) []instValue { return []instValue{{-1, v}} }
	n := func(v int64) []instValue { return one(v) }
	all := newAgent(newHost())
	for _, tt := range []struct {
		name string
		want []instValue
	}{
		{"pmcd.control.debug", one("appl0,pdu")},
		{"pmcd.numagents", n(3)},
		{"pmcd.numclients", n(3)},
		{"pmcd.control.timeout", n(5)},
		{"pmcd.control.creds_timeout", n(3)},
		{"pmcd.version", one("7.2.1")},
		{"pmcd.build", one("1")},
		{"pmcd.control.traceconn", n(1)},
		{"pmcd.control.tracepdu", n(0)},
		{"pmcd.control.tracenobuf", n(1)},
		{"pmcd.control.tracebufs", n(20)},
		{"pmcd.control.dumptrace", n(0)},
		{"pmcd.control.dumpconn", n(0)},
		{"pmcd.control.sighup", n(0)},
		{"pmcd.services", one("pmcd")},
		{"pmcd.hostname", one("host1")},
		{"pmcd.sighups", n(2)},
		{"pmcd.pid", n(4711)},
		{"pmcd.seqnum", n(5)},
		{"pmcd.labels", one(`{"a":1}`)},
		{"pmcd.timezone", one("UTC")},
		{"pmcd.zoneinfo", one("")},
		{"pmcd.limits.inpdusize", n(65536)},
		{"pmcd.limits.contexts", n(64)},
		{"pmcd.limits.metrics", n(32768)},
		// The fake host has received i+1 PDUs of type i and sent i.
		{"pmcd.pdu_in.error", n(1)},
		{"pmcd.pdu_in.creds", n(13)},
		{"pmcd.pdu_in.pmns_child", n(16)},
		{"pmcd.pdu_in.total", n(300)},
		{"pmcd.pdu_in.pmns_traverse", n(17)},
		{"pmcd.pdu_in.auth", n(18)},
		{"pmcd.pdu_in.descs", n(24)},
		{"pmcd.pdu_out.error", n(0)},
		{"pmcd.pdu_out.total", n(276)},
		{"pmcd.pdu_out.descs", n(23)},
		{"pmcd.agent.type", []instValue{{2, int64(0)}, {11, int64(2)}, {30, int64(4)}, {60, int64(0)}}},
		{"pmcd.agent.status", []instValue{{2, int64(0)}, {11, int64(1)}, {30, int64(0x90008)}, {60, int64(0)}}},
		{"pmcd.agent.fenced", []instValue{{2, int64(0)}, {11, int64(0)}, {30, int64(1)}, {60, int64(0)}}},
		{"pmcd.agent.name", []instValue{{2, "pmcd"}, {11, "sock"}, {30, "sampledso"}, {60, "linux"}}},
		{"pmcd.client.whoami", []instValue{{0, "vm -x"}, {7, ""}, {9, ""}}},
		{"pmcd.client.container", []instValue{{0, ""}, {7, "box"}, {9, ""}}},
		{"pmcd.client.start_date", []instValue{
			{0, "Sun Sep  9 01:46:40 2001"}, {7, "Sun Sep  9 01:46:41 2001"}, {9, "Sun Sep  9 01:46:42 2001"},
		}},
		{"pmcd.feature.secure", n(0)},
		{"pmcd.feature.ipv6", n(1)},
		{"pmcd.feature.unix_domain_sockets", n(1)},
		{"pmcd.feature.containers", n(1)},
		{"pmcd.pmlogger.port", nil},
		{"pmcd.pmie.actions", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := values(t, all, user, includeAll, pmidOf(t, tt.name)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if runtime.GOARCH == "amd64" {
		if got := values(t, all, user, includeAll, pmidOf(t, "pmcd.simabi")); got[0].value != "x86_64" {
			t.Errorf("pmcd.simabi: got %v", got)
		}
	}
}

func TestDomainLabel(t *testing.T) {
	a := New(2, `pm"cd`, newHost(), Config{})
	sets, err := a.Labels(context.Background(), agents.Origin{}, pdu.LabelDomain, 2)
	if err != nil || len(sets) != 1 {
		t.Fatalf("got %v, %v", sets, err)
	}
	s := sets[0]
	if s.Inst != pdu.NoInst || string(s.JSON) != `{"agent":"pm\"cd"}` || len(s.Labels) != 1 || s.Labels[0].Flags != 2 {
		t.Errorf("got %+v, JSON %s", s, s.JSON)
	}
	for _, kind := range []pdu.LabelKind{pdu.LabelInDom, pdu.LabelCluster, pdu.LabelItem, pdu.LabelInstances} {
		if sets, err := a.Labels(context.Background(), agents.Origin{}, kind, uint32(id(0, 1))); len(sets) != 0 || err != nil {
			t.Errorf("%v: got %v, %v", kind, sets, err)
		}
	}
}

func metricIDs() []pdu.PMID {
	var ids []pdu.PMID
	for cluster, c := range clusters {
		for _, m := range c {
			if m.name != "" {
				ids = append(ids, id(cluster, m.item))
			}
		}
	}
	return ids
}

func pmidOf(t testing.TB, name string) pdu.PMID {
	t.Helper()
	for cluster, c := range clusters {
		for _, m := range c {
			if m.name == name {
				return id(cluster, m.item)
			}
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func lines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "#") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}
