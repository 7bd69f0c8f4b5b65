package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu/pmapi"
)

// start is when the snapshots of tests begin.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// base returns a snapshot of a host that has all kinds of values.
func base() *Snapshot {
	numbers := func(inst string, values ...float64) Series {
		s := Series{Instance: inst}
		for _, v := range values {
			new(taker).addTo(&s, pmapi.ValueOf(v), false)
		}
		return s
	}
	text := func(v string) Series {
		var s Series
		for range 3 {
			new(taker).addTo(&s, pmapi.ValueOf(v), false)
		}
		return s
	}
	return &Snapshot{
		Format: format, Host: "a", Begin: start, End: start.Add(2 * time.Second), Samples: 3,
		Metrics: []Metric{
			{Name: "disk.read", PMID: "60.0.1", Type: "u64", Semantics: "counter", Units: "Kbyte", InDom: "60.1", OneLine: "reads", Help: "All reads.",
				Values: []Series{numbers("sda", 1e6, 1e6+100, 1e6+200), numbers("sdb", 5e6, 5e6, 5e6)}},
			{Name: "host.name", PMID: "60.0.2", Type: "string", Semantics: "discrete", OneLine: "name", Values: []Series{text("web1")}},
			{Name: "mem.total", PMID: "60.0.3", Type: "u64", Semantics: "instant", Units: "Kbyte", OneLine: "memory", Values: []Series{numbers("", 8e6, 8e6, 8e6)}},
			{Name: "ncpu", PMID: "60.0.4", Type: "u32", Semantics: "discrete", OneLine: "CPUs", Values: []Series{numbers("", 2, 2, 2)}},
			{Name: "own.calls", PMID: "250.0.1", Type: "u32", Semantics: "counter", OneLine: "calls", Values: []Series{numbers("", 300, 310, 320)}},
			{Name: "proc.rss", PMID: "3.0.1", Type: "u32", Semantics: "instant", InDom: "3.9", OneLine: "memory", Values: []Series{numbers("000001 init", 7, 7, 7), numbers("000002 x", 7, 7, 7)}},
		},
		InDoms: []InDom{
			{ID: "3.9", Instances: []Instance{{1, "000001 init"}, {2, "000002 x"}}},
			{ID: "60.1", OneLine: "disks", Instances: []Instance{{0, "sda"}, {1, "sdb"}}},
		},
		Labels: map[string]string{"host": `{"hostname":"web1"}`, "instance 60.1[sda]": `{"device":"sda"}`, "disk.read": `{"unit":"x"}`, "domain 60": `{"agent":"linux"}`},
		Agents: []Agent{{3, 1000, 2000}, {60, 1000, 2000}},
		Daemon: &Daemon{CPU: 0.01, Memory: 20 << 10},
	}
}

func (s *Snapshot) metric(name string) *Metric {
	return &s.Metrics[slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Name == name })]
}

func scale(s *Series, by float64) {
	r := s.Range
	for _, f := range []*float64{&r.First, &r.Last, &r.Min, &r.Max, &r.Step} {
		*f *= by
	}
}

// TestFaults compares a snapshot with one that has a fault: of the same time and of a later one.
func TestFaults(t *testing.T) {
	const always, together = "always", "together"
	tests := []struct {
		name string
		when string
		seed func(*Snapshot)
		want string // NAME KIND
	}{
		{"a metric missing", always, func(s *Snapshot) { s.Metrics = slices.Delete(s.Metrics, 2, 3) }, "mem.total name"},
		{"a metric more", always, func(s *Snapshot) { s.Metrics = append(s.Metrics, Metric{Name: "zzz"}) }, "zzz name"},
		{"a unit wrong", always, func(s *Snapshot) { s.metric("disk.read").Units = "byte" }, "disk.read units"},
		{"a type wrong", always, func(s *Snapshot) { s.metric("disk.read").Type = "u32" }, "disk.read type"},
		{"semantics wrong", always, func(s *Snapshot) { s.metric("disk.read").Semantics = "instant" }, "disk.read semantics"},
		{"another PMID", always, func(s *Snapshot) { s.metric("ncpu").PMID = "60.0.9" }, "ncpu PMID"},
		{"another domain", always, func(s *Snapshot) { s.metric("disk.read").InDom = "60.2" }, "disk.read domain"},
		{"help lost", always, func(s *Snapshot) { m := s.metric("disk.read"); m.OneLine, m.Help = "", "" }, "disk.read text"},
		{"help of another", always, func(s *Snapshot) { s.metric("own.calls").OneLine = "memory" }, "own.calls text"},
		{"no agent", always, func(s *Snapshot) { m := s.metric("mem.total"); m.Error, m.Values = "no agent for the domain", nil }, "mem.total error"},
		{"no value", always, func(s *Snapshot) { s.metric("mem.total").Values = nil }, "mem.total value"},
		{"no value of an instance", always, func(s *Snapshot) { m := s.metric("disk.read"); m.Values = m.Values[1:] }, "disk.read value"},
		{"values with gaps", always, func(s *Snapshot) { s.metric("mem.total").Values[0].Samples = 2 }, "mem.total gaps"},
		{"a counter reset by the swap", always, func(s *Snapshot) { scale(&s.metric("disk.read").Values[1], 1e-5) }, "disk.read "},
		{"a counter reset meanwhile", always, func(s *Snapshot) { s.metric("disk.read").Values[0].Range.Drops = 1 }, "disk.read reset"},
		{"a counter of an agent reset meanwhile", always, func(s *Snapshot) { s.metric("own.calls").Values[0].Range.Drops = 1 }, "own.calls reset"},
		{"a counter that stands still", together, func(s *Snapshot) {
			r := s.metric("disk.read").Values[0].Range
			r.Last, r.Max, r.Step = r.First, r.First, 0
		}, "disk.read rate"},
		{"a counter in the wrong scale", always, func(s *Snapshot) { scale(&s.metric("disk.read").Values[0], 1024) }, "disk.read value"},
		{"a number in the wrong scale", always, func(s *Snapshot) { scale(&s.metric("mem.total").Values[0], 1.0/1024) }, "mem.total value"},
		{"another number", together, func(s *Snapshot) { scale(&s.metric("mem.total").Values[0], 1.2) }, "mem.total value"},
		{"another text", always, func(s *Snapshot) { v := &s.metric("host.name").Values[0]; v.First, v.Last = "web2", "web2" }, "host.name value"},
		{"another discrete number", always, func(s *Snapshot) { v := &s.metric("ncpu").Values[0]; v.First, v.Last = "3", "3" }, "ncpu value"},
		{"an instance renamed", always, func(s *Snapshot) {
			s.InDoms[1].Instances[0].Name = "sdc"
			s.metric("disk.read").Values[0].Instance = "sdc"
		}, "instance domain 60.1 instances"},
		{"an instance with another number", always, func(s *Snapshot) { s.InDoms[1].Instances[0].ID = 7 }, "instance domain 60.1 number"},
		{"all processes missing", always, func(s *Snapshot) { s.InDoms[0].Instances = nil; s.metric("proc.rss").Values = nil }, "proc.rss value"},
		{"a label lost", always, func(s *Snapshot) { delete(s.Labels, "domain 60") }, "domain 60 labels"},
		{"a label of an instance lost", always, func(s *Snapshot) { delete(s.Labels, "instance 60.1[sda]") }, "instance 60.1[sda] labels"},
		{"a label changed", always, func(s *Snapshot) { s.Labels["disk.read"] = `{"unit":"y"}` }, "disk.read labels"},
		{"a slow agent", always, func(s *Snapshot) { s.Agents[1].Median = 1200e3 }, "domain 60 time"},
		{"an agent that ends", always, func(s *Snapshot) { s.Changes = 2 }, "agents restarts"},
		{"much more memory", always, func(s *Snapshot) { s.Daemon.Memory = 70 << 10 }, "memory cost"},
		{"a busy loop", always, func(s *Snapshot) { s.Daemon.CPU = 0.9 }, "CPU cost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, later := range []time.Duration{0, time.Hour} {
				a, b := base(), base()
				b.Begin, b.End = b.Begin.Add(later), b.End.Add(later)
				tt.seed(b)
				r := Compare(a, b, Rules{Tolerance: 0.1})
				if later > 0 && tt.when == together {
					if len(r.Differences) > 0 {
						t.Errorf("later: %+v", r.Differences)
					}
					continue
				}
				found := slices.ContainsFunc(r.Differences, func(d Difference) bool { return strings.HasPrefix(d.Name+" "+d.What, tt.want) })
				if !found || r.Together != (later == 0) {
					t.Errorf("%v later: %s is not in %+v", later, tt.want, r.Differences)
				}
			}
		})
	}
}

// TestNoFalseAlarm compares snapshots of a healthy host.
func TestNoFalseAlarm(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"nothing": func(*Snapshot) {},
		"time": func(s *Snapshot) {
			r := s.metric("disk.read").Values[0].Range
			r.First, r.Last, r.Min, r.Max = 1e6+150, 1e6+350, 1e6+150, 1e6+350
		},
		"a little more memory": func(s *Snapshot) { scale(&s.metric("mem.total").Values[0], 1.05) },
		"agents count anew":    func(s *Snapshot) { scale(&s.metric("own.calls").Values[0], 0.001) },
		"a process has ended": func(s *Snapshot) {
			s.InDoms[0].Instances, s.metric("proc.rss").Values = s.InDoms[0].Instances[:1], s.metric("proc.rss").Values[:1]
		},
		"a process has no text":    func(s *Snapshot) { s.metric("proc.rss").Values[1].Samples = 1 },
		"a little slower":          func(s *Snapshot) { s.Agents[0].Median *= 20 },
		"ours needs a bit more":    func(s *Snapshot) { s.Daemon.Memory += 10 << 10; s.Daemon.CPU = 0.02 },
		"an agent of A has ended":  func(s *Snapshot) { s.Daemon.CPU = 0.9; s.Changes = 1 },
		"no processes of ours":     func(s *Snapshot) { s.Daemon = nil },
		"known: the version":       func(s *Snapshot) { s.Metrics = append(s.Metrics, Metric{Name: "mmv.control.metrics"}) },
		"known: help in our words": func(s *Snapshot) { s.metric("disk.read").OneLine = "number of reads" },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := base(), base()
			change(b)
			a.Changes = b.Changes
			r := Compare(a, b, Rules{Tolerance: 0.1})
			if len(r.Differences) > 0 || len(r.Known) > 0 != strings.HasPrefix(name, "known") {
				t.Errorf("%+v, known %+v", r.Differences, r.Known)
			}
		})
	}
}

// The label hostname of an exporter of this host has no port here.
func TestKnownHostname(t *testing.T) {
	d := Difference{Name: "cluster 144.1", What: isLabels, A: `{"hostname":"localhost:9100"}`, B: `{"hostname":"web1"}`}
	if got := known(&d); !strings.Contains(got, "docs/agents/openmetrics.md: the label `hostname`") {
		t.Errorf("%+v: %q", d, got)
	}
}

// A counter of 32 bits that wraps around is no difference, and one that was reset is one.
func TestWraps(t *testing.T) {
	type counter [3]int64 // one sample a second
	before := counter{4294967000, 4294967100, 4294967200}
	for _, tt := range []struct {
		name  string
		later bool
		typ   string
		a, b  counter
		want  string
	}{
		{"both wrap", false, "u32", counter{4294967100, 4294967200, 4}, counter{4294967150, 4294967250, 54}, ""},
		{"A wraps after the last sample of B", false, "u32", counter{4294967110, 4294967200, 4}, counter{4294967100, 4294967190, 4294967280}, ""},
		{"B wraps", true, "u32", before, counter{4294967200, 4, 104}, ""},
		{"it has wrapped between the two", true, "u32", before, counter{1000, 1100, 1200}, ""},
		{"a busy one may have wrapped", true, "u32", counter{1e9, 1001e6, 1002e6}, counter{5, 1000005, 2000005}, ""},
		{"it is negative then", true, "32", counter{2147483447, 2147483547, 2147483647}, counter{-2147483600, -2147483500, -2147483400}, ""},
		{"it would be a wrong scale", true, "u32", before, counter{4294967, 4295067, 4295167}, isReset},
		{"B begins anew", true, "u32", counter{4e9, 4e9 + 100, 4e9 + 200}, counter{4e9 + 300, 5, 105}, isReset},
		{"B begins anew beside A", false, "u32", counter{4e9, 4e9 + 100, 4e9 + 200}, counter{4e9 + 50, 5, 105}, isReset},
		{"it has begun anew between the two", true, "u32", counter{4e9, 4e9 + 100, 4e9 + 200}, counter{5, 105, 205}, isReset},
		{"a small one has begun anew", true, "u32", counter{1000, 1100, 1200}, counter{5, 105, 205}, isReset},
		{"64 bits do not wrap", true, "u64", before, counter{1000, 1100, 1200}, isReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var both [2]*Snapshot
			for i, values := range []counter{tt.a, tt.b} {
				s := Series{}
				for _, v := range values {
					value := pmapi.ValueOf(uint32(v))
					switch tt.typ {
					case "32":
						value = pmapi.ValueOf(int32(v))
					case "u64":
						value = pmapi.ValueOf(uint64(v))
					}
					new(taker).addTo(&s, value, true)
				}
				begin := start
				if i == 1 && tt.later {
					begin = begin.Add(time.Hour)
				}
				both[i] = &Snapshot{Begin: begin, End: begin.Add(2 * time.Second), Samples: 3, Metrics: []Metric{
					{Name: "intr", PMID: "60.0.5", Type: tt.typ, Semantics: "counter", Values: []Series{s}}}}
			}
			r := Compare(both[0], both[1], Rules{Tolerance: 0.1})
			got := ""
			for _, d := range r.Differences {
				got += d.What
			}
			if got != tt.want {
				t.Errorf("%+v, want %q", r.Differences, tt.want)
			}
		})
	}
}

// With SameAgents the agents that only A has do not count, but one of B that has failed does.
func TestSameAgents(t *testing.T) {
	for _, tt := range []struct {
		name      string
		same      bool
		change    func(a, b *Snapshot)
		different int
	}{
		{"B does not have it", false, func(_, b *Snapshot) { b.Metrics = slices.Delete(b.Metrics, 4, 5) }, 1},
		{"B does not have it", true, func(_, b *Snapshot) { b.Metrics = slices.Delete(b.Metrics, 4, 5) }, 0},
		{"B names it, but does not have it", true, func(_, b *Snapshot) { *b.metric("own.calls") = Metric{Name: "own.calls", Error: "no agent"} }, 0},
		{"it has failed", true, func(_, b *Snapshot) {
			*b.metric("own.calls") = Metric{Name: "own.calls", Error: "no agent"}
			b.InDoms = append(b.InDoms, InDom{ID: agentsInDom, Instances: []Instance{{60, "linux"}, {250, "own"}}})
		}, 1},
		{"it has failed in both", true, func(a, b *Snapshot) {
			for _, s := range []*Snapshot{a, b} {
				*s.metric("own.calls") = Metric{Name: "own.calls", Error: "no agent"}
				s.InDoms = append(s.InDoms, InDom{ID: agentsInDom, Instances: []Instance{{60, "linux"}, {250, "own"}}})
			}
		}, 0},
	} {
		t.Run(fmt.Sprintf("%s %t", tt.name, tt.same), func(t *testing.T) {
			a, b := base(), base()
			tt.change(a, b)
			if r := Compare(a, b, Rules{0.1, tt.same}); len(r.Differences) != tt.different {
				t.Errorf("%+v", r.Differences)
			}
		})
	}
}

// The pages have what the known differences say.
func TestKnownAreDocumented(t *testing.T) {
	for _, k := range knownDifferences {
		text, err := os.ReadFile(filepath.Join("../../../../../docs", k.page))
		if err != nil || !strings.Contains(strings.ReplaceAll(string(text), "\n", " "), k.row) {
			t.Errorf("docs/%s has no %q (%v)", k.page, k.row, err)
		}
	}
}

func TestWrongScale(t *testing.T) {
	for _, tt := range []struct {
		a, b float64
		want string
	}{
		{1e6, 1e6, ""}, {1e6, 2e6, ""}, {1e6, 1e9, "times 1000"}, {1e6, 1024e6, "times 1024"}, {1e9, 1e6, "divided by 1000"},
		{1e9, 1e3, "divided by 1000000"}, {5, 5000, ""}, {0, 1e9, ""}, {1e6, math.Inf(1), ""},
	} {
		if got := wrongScale(tt.a, tt.b); got != tt.want {
			t.Errorf("%g and %g: %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}

// A snapshot can be read again, and what is none is an error.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	text, err := json.Marshal(base())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, err string }{
		{string(text), ""},
		{"", "empty or incomplete"},
		{string(text[:len(text)/2]), "empty or incomplete"},
		{"{}", "its format is 0, not 1"},
		{"[]", "not a snapshot"},
		{"pcp", "not a snapshot"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(path)
		if tt.err == "" && (err != nil || !reflect.DeepEqual(s, base())) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%.20q: %v", tt.text, err)
		}
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	r := &Report{A: "a:1", B: "b:1", Metrics: 3, Values: 5, Differences: []Difference{
		{Name: "x", What: isName, A: "present", B: "absent"}, {Name: "y", Instance: "i", What: isValue, A: "1\x1b", B: strings.Repeat("é", 60)}, {Name: "z", What: isValue, A: "1", B: "2"}},
		Known:   []Difference{{Name: "v", What: isValue, Why: "docs/x.md: v"}, {Name: "v", Instance: "i", What: isValue, Why: "docs/x.md: v"}},
		Skipped: map[string][]string{moves: {"a", "b", "c", "d"}},
		Cost:    [2]*Cost{{Answer: 1500}, {Answer: 2500, CPU: 0.01, Memory: 2048}},
	}
	const want = `METRIC  DIFFERENCE  A        B
x       name        present  absent
y[i]    value       1\x1b    ` + "ééééééééééééééééééééééééééééééééééééé..." + `
z       value       1        2

Known differences, which do not count:
    docs/x.md: v: v

Not compared:
    the value changes: a, b, c and 1 more

A is a:1, which takes 1.5 ms for all
B is b:1, which takes 2.5 ms for all, 1% of a CPU and 2 MiB with its agents
3 metrics and 5 values of both compared, name: 1, value: 2
`
	if err := Print(&b, r); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &b, want)
	}
}

// This process is one that can be measured.
func TestReadDaemon(t *testing.T) {
	before := readDaemon(os.Getpid())
	if before == nil || before.Memory == 0 || before.Processes[0].PID != os.Getpid() {
		t.Fatalf("%+v", before)
	}
	if d := before.until(readDaemon(os.Getpid())); d == nil || d.CPU < 0 {
		t.Errorf("%+v", d)
	}
	if d := readDaemon(0); d != nil {
		t.Errorf("%+v", d)
	}
	if pid := findDaemon("1"); pid == 1 {
		t.Error("process 1 is no pmcd")
	}
}

// The clock of a CPU is discrete, but follows the load of each moment.
func TestMomentary(t *testing.T) {
	a, b := base(), base()
	for n, s := range []*Snapshot{a, b} {
		m := s.metric("ncpu")
		m.Name = "hinv.cpu.clock"
		m.Values[0].First = []string{"800", "3300"}[n]
		m.Values[0].Last = m.Values[0].First
	}
	if r := Compare(a, b, Rules{Tolerance: 0.1}); len(r.Differences) > 0 {
		t.Errorf("%+v", r.Differences)
	}
}
