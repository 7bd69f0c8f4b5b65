package gather

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A harness is a Gatherer for all metrics of a fake.
type harness struct {
	*Gatherer
	t   *testing.T
	f   *fake
	log []string
}

func newHarness(t *testing.T, f *fake, metrics ...string) *harness {
	r := &harness{t: t, f: f}
	if metrics == nil {
		metrics = []string{""}
	}
	r.Gatherer = New(Config{
		Dial:    func(context.Context) (Client, error) { return f, nil },
		Metrics: metrics,
		Log:     slog.New(logtext.NewJournalHandler(lines{&r.log}, slog.LevelInfo)),
	})
	return r
}

// lines is a writer that appends the text of each log line to a list.
type lines struct{ list *[]string }

func (l lines) Write(line []byte) (int, error) {
	_, text, _ := strings.Cut(strings.TrimSpace(string(line)), ">")
	*l.list = append(*l.list, text)
	return len(line), nil
}

// text returns what Prometheus gets, and fails the test if it would not take that.
func (r *harness) text() string {
	r.t.Helper()
	families, err := r.Gather(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			r.t.Fatal(err)
		}
	}
	return b.String()
}

// samples returns the lines that are no comments.
func (r *harness) samples() string {
	r.t.Helper()
	var lines []string
	for line := range strings.Lines(r.text()) {
		if line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func (r *harness) check(got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("got\n%s\nwant\n%s\nlog: %q", got, want, r.log)
	}
}

func TestValues(t *testing.T) {
	failed := single(1, "a", pdu.SemInstant, int32(1))
	failed.err, failed.values = pdu.ErrnoAgain, nil
	none := single(1, "a", pdu.SemInstant, int32(1))
	none.values = nil
	helped := single(1, "a", pdu.SemInstant, int32(1))
	helped.help = "one\nline \\"
	latin1 := single(1, "a", pdu.SemInstant, int32(1))
	latin1.help = "10 \xb5s"
	for _, tt := range []struct {
		name string
		m    fakeMetric
		want string
	}{
		{"a counter", single(1, "disk.all.read", pdu.SemCounter, uint64(1<<40)), "# TYPE disk_all_read counter\ndisk_all_read 1.099511627776e+12\n"},
		{"an instant value", single(1, "a", pdu.SemInstant, int32(-5)), "# TYPE a gauge\na -5\n"},
		{"a discrete value", single(1, "a", pdu.SemDiscrete, uint32(1<<31)), "# TYPE a gauge\na 2.147483648e+09\n"},
		{"64 bits with a sign", single(1, "a", pdu.SemInstant, int64(-1<<40)), "# TYPE a gauge\na -1.099511627776e+12\n"},
		{"a float", single(1, "a", pdu.SemInstant, float32(26.64)), "# TYPE a gauge\na 26.639999\n"},
		{"a double", single(1, "a", pdu.SemInstant, 26.64), "# TYPE a gauge\na 26.64\n"},
		{"not a number", single(1, "a", pdu.SemInstant, math.NaN()), "# TYPE a gauge\na NaN\n"},
		{"infinity", single(1, "a", pdu.SemInstant, float32(math.Inf(-1))), "# TYPE a gauge\na -Inf\n"},
		{"semantics that do not exist", single(1, "a", 7, int32(1)), "# TYPE a counter\na 1\n"},
		{"a help text", helped, "# HELP a one\\nline \\\\\n# TYPE a gauge\na 1\n"},
		{"a help text that is not UTF-8", latin1, "# HELP a 10 \uFFFDs\n# TYPE a gauge\na 1\n"},
		{"a name that is not valid", single(1, "a-b", pdu.SemInstant, int32(1)), ""},
		{"an error", failed, ""},
		{"no value", none, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, &fake{metrics: []fakeMetric{tt.m}})
			r.check(r.text(), tt.want)
		})
	}
}

// Metrics that cannot have numbers are not asked for.
func TestNoNumbers(t *testing.T) {
	for _, m := range []fakeMetric{
		single(1, "a", pdu.SemInstant, "text"),
		{name: "a", desc: pdu.Desc{PMID: pdu.NewPMID(5, 0, 1), ValueType: pdu.MetricAggregate}},
		{name: "a", desc: pdu.Desc{PMID: pdu.NewPMID(5, 0, 1), ValueType: pdu.MetricEvent}},
		{name: "a", desc: pdu.Desc{PMID: pdu.NewPMID(5, 0, 1), ValueType: pdu.MetricNoSupport}},
		{name: "a", desc: pdu.Desc{PMID: pdu.NewPMID(5, 0, 1)}, noDesc: pdu.ErrnoPMID},
	} {
		r := newHarness(t, &fake{metrics: []fakeMetric{m}})
		if families, err := r.Gather(t.Context()); err != errNone || r.f.calls["Fetch"] != 0 {
			t.Errorf("%v: %v, %v, %d fetches", m.desc.ValueType, families, err, r.f.calls["Fetch"])
		}
	}
}

// A string is served if it is asked for by its own name, and not with a node above it.
func TestStrings(t *testing.T) {
	dirs := perInst(1, "filesys.mountdir", fakeDom, 1, 2)
	dirs.desc.ValueType, dirs.values = pdu.MetricString, []pmapi.Value{pmapi.ValueOf("/"), pmapi.ValueOf("/a\"\xff")}
	f := &fake{
		metrics: []fakeMetric{
			dirs, single(2, "filesys.uuid", pdu.SemDiscrete, "text"), single(3, "filesys.n", pdu.SemDiscrete, int32(3)),
			single(4, "a.hostname", pdu.SemInstant, "other"), single(5, "a.5", pdu.SemInstant, "no label has this name"),
		},
		insts:  map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "vda"}, {ID: 2, Name: "vdb"}}},
		labels: map[level][]pmapi.Label{{pmapi.LabelContext, 0}: {{Name: "hostname", Value: `"h"`}}},
	}
	r := newHarness(t, f, "filesys", "filesys.mountdir", "a.hostname", "a.5")
	r.check(r.text(), `# TYPE filesys_mountdir_info gauge
filesys_mountdir_info{hostname="h",instid="1",instname="vda",mountdir="/"} 1
filesys_mountdir_info{hostname="h",instid="2",instname="vdb",mountdir="/a\"`+"\uFFFD"+`"} 1
# TYPE filesys_n gauge
filesys_n{hostname="h"} 3
# TYPE a_hostname_info gauge
a_hostname_info{hostname="h"} 1
# TYPE a_5_info gauge
a_5_info{hostname="h"} 1
`)
	f.metrics[0].values[0] = pmapi.ValueOf("/mnt")
	if got, want := r.samples(), `{hostname="h",instid="1",instname="vda",mountdir="/mnt"} 1`; !strings.Contains(got, want) || strings.Contains(got, `"/"`) {
		t.Errorf("after a change: %s, want %s", got, want)
	}
}

func TestInstances(t *testing.T) {
	f := &fake{
		metrics: []fakeMetric{perInst(1, "disk.dev.read", fakeDom, 0, 7, 9, 7, -3)},
		insts:   map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 0, Name: "vda"}, {ID: 7, Name: `"v"`}, {ID: 8, Name: "vdc"}, {ID: -3, Name: "\xff"}}},
	}
	r := newHarness(t, f)
	r.check(r.samples(), `disk_dev_read{instid="0",instname="vda"} 0
disk_dev_read{instid="7",instname="\"v\""} 1
disk_dev_read{instid="4294967293",instname="`+"\uFFFD"+`"} 4
`)
	// The next scrape has an instance more, and one with another name.
	f.insts[fakeDom] = []pdu.Inst{{ID: 0, Name: "sda"}, {ID: 9, Name: "vdd"}}
	r.check(r.samples(), "disk_dev_read{instid=\"0\",instname=\"sda\"} 0\ndisk_dev_read{instid=\"9\",instname=\"vdd\"} 2\n")
	if f.calls["Instances"] != 2 || f.calls["LabelsAt"] != 7 || f.calls["Text"] != 1 {
		t.Errorf("requests: %v", f.calls)
	}
	// Series without their labels would be others.
	f.noInst = pdu.ErrnoAgain
	r.check(r.samples(), "")
	f.noInst, f.noLabel = nil, pdu.ErrnoAgain
	r.check(r.samples(), "")
	f.noLabel = nil
	if got := r.samples(); strings.Count(got, "\n") != 2 {
		t.Errorf("got %s", got)
	}
}

func TestLabels(t *testing.T) {
	label := func(pairs ...string) (list []pmapi.Label) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, pmapi.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		return list
	}
	id := pdu.NewPMID(5, 0, 1)
	f := &fake{
		metrics: []fakeMetric{perInst(1, "a", fakeDom, 1, 2), single(2, "b", pdu.SemInstant, int32(1))},
		insts:   map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "one"}, {ID: 2, Name: "two"}}},
		labels: map[level][]pmapi.Label{
			{pmapi.LabelContext, 0}: append(label("hostname", `"h"`, "k", `"context"`, "n", "3", "t", "true", "x.y", `"compound"`, "x_y", `"flat"`, "__name__", `"z"`, "0", `"digit"`),
				pmapi.Label{Name: "userid", Value: "1", Kind: pmapi.LabelContext, Optional: true},
				pmapi.Label{Name: "note", Value: `"optional"`, Kind: pmapi.LabelContext, Optional: true}),
			{pmapi.LabelDomain, 5}:                    label("agent", `"fake"`, "k", `"domain"`),
			{pmapi.LabelInDom, uint32(fakeDom)}:       label("of", `"indom"`),
			{pmapi.LabelCluster, uint32(id) &^ 0x3ff}: label("of", `"cluster"`, "quote", `"a \"b\""`),
			{pmapi.LabelItem, uint32(id)}:             label("utf", `"zürich"`, "bad", "\"\xff\""),
		},
		ofInsts: map[pdu.InDom][]pmapi.InstLabels{fakeDom: {{Inst: 2, Labels: label("of", `"instance"`, "instname", `"other"`)}}},
	}
	r := newHarness(t, f)
	r.check(r.samples(), `a{agent="fake",bad="`+"\uFFFD"+`",hostname="h",instid="1",instname="one",k="domain",n="3",note="optional",of="cluster",quote="a \\\"b\\\"",t="true",utf="zürich",x_y="compound"} 0
a{agent="fake",bad="`+"\uFFFD"+`",hostname="h",instid="2",instname="other",k="domain",n="3",note="optional",of="instance",quote="a \\\"b\\\"",t="true",utf="zürich",x_y="compound"} 1
b{agent="fake",hostname="h",k="domain",n="3",note="optional",of="cluster",quote="a \\\"b\\\"",t="true",x_y="compound"} 1
`)
}

// Series share labels, which with many processes take most of the memory.
func TestSharedLabels(t *testing.T) {
	f := &fake{
		metrics: []fakeMetric{perInst(1, "a", fakeDom, 1, 2), perInst(2, "b", fakeDom, 1)},
		insts:   map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "one"}, {ID: 2, Name: "two"}}},
		labels:  map[level][]pmapi.Label{{pmapi.LabelContext, 0}: {{Name: "hostname", Value: `"h"`}}},
	}
	families, err := newHarness(t, f).Gather(t.Context())
	if err != nil || len(families) != 2 {
		t.Fatalf("%v, %v", families, err)
	}
	label := func(family, series, i int) *dto.LabelPair { return families[family].Metric[series].Label[i] }
	if label(0, 0, 0) != label(0, 1, 0) || label(0, 0, 1) != label(1, 0, 1) || label(0, 0, 2) != label(1, 0, 2) {
		t.Errorf("the labels are not shared: %v", families)
	}
}

// Prometheus refuses a scrape with two values of the same series.
func TestSameSeries(t *testing.T) {
	number := []pmapi.Label{{Name: "instid", Value: `"1"`}, {Name: "instname", Value: `"one"`}}
	f := &fake{
		metrics: []fakeMetric{perInst(1, "a", fakeDom, 1, 2, 3, 1)},
		insts:   map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "one"}, {ID: 2, Name: "two"}, {ID: 3, Name: "three"}}},
		ofInsts: map[pdu.InDom][]pmapi.InstLabels{fakeDom: {{Inst: 2, Labels: number}}},
	}
	r := newHarness(t, f)
	for range 2 {
		r.check(r.samples(), "a{instid=\"1\",instname=\"one\"} 0\na{instid=\"3\",instname=\"three\"} 2\n")
	}
	if len(r.log) != 1 {
		t.Errorf("log: %q", r.log)
	}
}

func TestNames(t *testing.T) {
	again := single(1, "z.alias", pdu.SemInstant, int32(1))
	f := &fake{metrics: []fakeMetric{
		single(1, "a.b_c", pdu.SemInstant, int32(1)), single(2, "a.b.c", pdu.SemInstant, int32(2)),
		single(3, "other", pdu.SemInstant, int32(3)), again,
	}}
	// All names of a metric are returned, also those that it was not asked for by.
	r := newHarness(t, f, "a", "a.b", "no.such")
	for range 3 {
		r.check(r.samples(), "a_b_c 1\nz_alias 1\n")
	}
	if want := []string{`no metrics "no.such": "no.such": ` + pdu.ErrnoName.Error(), "metric a.b.c is left out: a.b_c has the name a_b_c, too"}; !slices.Equal(r.log, want) {
		t.Errorf("log: %q\nwant %q", r.log, want)
	}
	r = newHarness(t, f, "a", "no.such")
	r.conf.Optional = true
	if r.samples(); len(r.log) != 1 {
		t.Errorf("log: %q", r.log)
	}
}

// A first metric that has no value for the moment keeps its name.
func TestNameWithoutValue(t *testing.T) {
	f := &fake{metrics: []fakeMetric{single(1, "a.b", pdu.SemInstant, int32(1)), single(2, "a_b", pdu.SemInstant, int32(2))}}
	f.metrics[0].err, f.metrics[0].values = pdu.ErrnoAgain, nil
	r := newHarness(t, f)
	if families, err := r.Gather(t.Context()); err != nil || len(families) != 0 {
		t.Errorf("%v, %v", families, err)
	}
}

// What pmcd reports with a fetch is obeyed in the same scrape.
func TestChanges(t *testing.T) {
	f := &fake{metrics: []fakeMetric{single(1, "a", pdu.SemInstant, int32(1))}, labels: make(map[level][]pmapi.Label)}
	r := newHarness(t, f)
	r.check(r.samples(), "a 1\n")
	f.metrics = append(f.metrics, single(2, "b", pdu.SemInstant, int32(2)))
	f.labels[level{pmapi.LabelContext, 0}] = []pmapi.Label{{Name: "k", Value: "1"}}
	r.check(r.samples(), "a 1\n")
	f.changes = pdu.StateNamesChange | pdu.StateLabelChange
	fetches := f.calls["Fetch"]
	r.check(r.samples(), "a{k=\"1\"} 1\nb{k=\"1\"} 2\n")
	if n := f.calls["Fetch"] - fetches; n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// Without a report, new names are found after a while.
func TestNewNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{metrics: []fakeMetric{single(1, "a", pdu.SemInstant, int32(1))}}
		r := newHarness(t, f)
		r.samples()
		f.metrics = append(f.metrics, single(2, "b", pdu.SemInstant, int32(2)))
		r.check(r.samples(), "a 1\n")
		time.Sleep(maxPlanAge + 1)
		r.check(r.samples(), "a 1\nb 2\n")
		if f.calls["Text"] != 2 {
			t.Errorf("%d texts were read for 2 metrics", f.calls["Text"])
		}

		// An agent that does not answer is asked sooner.
		f.metrics = append(f.metrics, single(3, "c", pdu.SemInstant, int32(3)))
		f.metrics[2].noDesc = pdu.ErrnoAgain
		time.Sleep(maxPlanAge + 1)
		r.check(r.samples(), "a 1\nb 2\n")
		f.metrics[2].noDesc = nil
		time.Sleep(retryAge + 1)
		r.check(r.samples(), "a 1\nb 2\nc 3\n")
	})
}

// If there is not enough time for all requests about metrics, each scrape has more metrics.
func TestSlowNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{slow: time.Second}
		for i := range 10 {
			f.metrics = append(f.metrics, single(i, fmt.Sprint("m.", string(rune('a'+i))), pdu.SemInstant, int32(i)))
		}
		r := newHarness(t, f)
		for _, want := range []int{5, 10, 10} {
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			families, err := r.Gather(ctx)
			if err != nil || len(families) != want {
				t.Errorf("%d families, %v, want %d", len(families), err, want)
			}
			cancel()
		}
		if len(r.log) != 1 || r.log[0] != "5 metrics are described, 5 more follow with the next scrapes" {
			t.Errorf("log: %q", r.log)
		}
	})
}

func TestLostConnection(t *testing.T) {
	f := &fake{metrics: []fakeMetric{perInst(1, "a", fakeDom, 1)}, insts: map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 1, Name: "one"}}}}
	r := newHarness(t, f)
	dials := 0
	r.conf.Dial = func(context.Context) (Client, error) {
		if dials++; dials == 1 {
			return nil, io.EOF
		}
		return f, nil
	}
	if _, err := r.Gather(t.Context()); err != io.EOF {
		t.Errorf("not connected: %v", err)
	}
	r.samples()
	f.lost = io.ErrUnexpectedEOF
	if _, err := r.Gather(t.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("lost: %v", err)
	}
	f.lost = nil
	r.check(r.samples(), "a{instid=\"1\",instname=\"one\"} 0\n")
	if dials != 2 {
		t.Errorf("%d dials", dials)
	}
}

// A scrape that is interrupted while metrics are described does not describe them twice.
func TestInterrupted(t *testing.T) {
	f := &fake{metrics: []fakeMetric{
		single(1, "a", pdu.SemInstant, int32(1)), single(2, "b", pdu.SemInstant, int32(2)), single(3, "c", pdu.SemInstant, int32(3)),
	}, noText: context.DeadlineExceeded}
	r := newHarness(t, f)
	if _, err := r.Gather(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	f.noText = nil
	r.check(r.samples(), "a 1\nb 2\nc 3\n")
	if n := f.calls["Text"]; n != 4 || len(r.log) > 0 {
		t.Errorf("%d requests for help texts, want 4; log %q", n, r.log)
	}
}

func TestReady(t *testing.T) {
	status := perInst(1, statusMetric, fakeDom, 2, 60, 70)
	f := &fake{insts: map[pdu.InDom][]pdu.Inst{fakeDom: {{ID: 2, Name: "pmcd"}, {ID: 60, Name: "linux"}}}}
	r := newHarness(t, f)
	for _, tt := range []struct {
		name   string
		values []uint64
		err    pdu.Errno
		want   string
	}{
		{"all are ready", []uint64{0, 0, 0}, 0, ""},
		{"one has failed", []uint64{0, 0x10004, 0}, 0, ""},
		{"one starts", []uint64{0, 1, 0}, 0, "agents that are not ready: linux"},
		{"two start", []uint64{1, 0, 1}, 0, "agents that are not ready: pmcd, 70"},
		{"no values", nil, pdu.ErrnoAgain, statusMetric + ": " + pdu.ErrnoAgain.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := status
			m.err, m.values = tt.err, nil
			for _, x := range tt.values {
				m.values = append(m.values, pmapi.ValueOf(x))
			}
			f.metrics = []fakeMetric{m}
			got := ""
			if err := r.Ready(t.Context()); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	f.metrics = nil
	if err := r.Ready(t.Context()); !errors.Is(err, pdu.ErrnoName) {
		t.Errorf("without the metric: %v", err)
	}
	f.metrics, f.lost = []fakeMetric{status}, io.EOF
	if err := r.Ready(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("without a connection: %v", err)
	}
}

// Ready has a connection of its own: requests on one connection wait for each other.
func TestReadyBesideGather(t *testing.T) {
	ours := []*fake{{}, {}}
	for _, f := range ours {
		f.metrics = []fakeMetric{single(1, statusMetric, pdu.SemDiscrete, int32(0))}
	}
	r, dialed := newHarness(t, ours[0]), 0
	r.conf.Dial = func(context.Context) (Client, error) {
		dialed++
		return ours[dialed-1], nil
	}
	for range 2 {
		r.samples()
		if err := r.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if a, b := ours[0].calls["Fetch"], ours[1].calls["Fetch"]; a != 2 || b != 2 {
		t.Errorf("%d and %d fetches, want 2 and 2", a, b)
	}
}

// Whatever an agent sends, Prometheus can read the text.
func FuzzNames(f *testing.F) {
	f.Add("disk.dev.read", "per disk", "vda", "a.b", `"x"`)
	f.Add("a", "\n", "\x00\xff", "__name__", "\"\n\\")
	f.Fuzz(func(t *testing.T, name, help, inst, label, value string) {
		src := &fake{
			metrics: []fakeMetric{perInst(1, name, otherDom, 1, 2)},
			insts:   map[pdu.InDom][]pdu.Inst{otherDom: {{ID: 1, Name: inst}, {ID: 2, Name: "two"}}},
			labels:  map[level][]pmapi.Label{{pmapi.LabelContext, 0}: {{Name: label, Value: value}}},
		}
		src.metrics[0].help = help
		r := newHarness(t, src)
		text := r.text()
		parsed, err := parse(text)
		if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		for _, f := range parsed {
			for _, m := range f.Metric {
				if len(m.Label) > 3 {
					t.Errorf("labels %v", m.Label)
				}
			}
		}
	})
}

func parse(text string) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.LegacyValidation)
	return p.TextToMetricFamilies(strings.NewReader(text))
}
