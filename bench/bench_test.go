package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pmnsload"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == slowArg { // the test program is the agent, too
		serve.Main(slowAgent)
	}
	if len(os.Args) == 4 && os.Args[1] == childArg {
		childMain(os.Args[2], os.Args[3])
	}
	os.Exit(m.Run())
}

func TestSteady(t *testing.T) {
	mem := func(kib func(i int) int64) (all []snapshot) {
		for i := range soakPhases {
			all = append(all, snapshot{rss: kib(i) << 10})
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		at     []snapshot
		steady bool
	}{
		{"constant", mem(func(int) int64 { return 20 << 10 }), true},
		{"grows only in the beginning", mem(func(i int) int64 { return min(20<<10, 10<<10+int64(i)*4<<10) }), true},
		{"goes up and down", mem(func(i int) int64 { return 20<<10 + int64(i%3)<<10 }), true},
		{"shrinks", mem(func(i int) int64 { return 30<<10 - int64(i)<<9 }), true},
		{"grows by 100 KiB in each phase", mem(func(i int) int64 { return 20<<10 + int64(i)*100 }), false},
	} {
		if err := steady(io.Discard, tt.at, 5*time.Minute, 0.05); (err == nil) != tt.steady {
			t.Errorf("memory that %s: %v", tt.name, err)
		}
	}
}

// TestExcuse tests requests before, during, across and after the time in which an agent is
// down.
func TestExcuse(t *testing.T) {
	s := soak{done: map[string]int{}, downs: map[int]int{}}
	bad := errors.New("bad")
	excused := func(begin map[int]int, domain int) bool {
		n := s.excused
		err := s.excuse(bad, begin, domain)
		if (err == nil) != (s.excused == n+1) || err != nil && err != bad {
			t.Errorf("%v, %d excused", err, s.excused-n)
		}
		return err == nil
	}
	before := s.begin()
	if excused(before, 7) {
		t.Error("down from the start")
	}
	s.goes(7)
	during := s.begin()
	if !excused(before, 7) || !excused(during, 7) || excused(before, 8) {
		t.Error("while it is down")
	}
	s.goes(7)
	if !excused(before, 7) || !excused(during, 7) {
		t.Error("a request from before the end")
	}
	if excused(s.begin(), 7) {
		t.Error("a request after the end")
	}
	if err := s.excuse(nil, before, 7); err != nil {
		t.Error(err)
	}
	s.did("stores", bad)
	if s.failed != 1 || len(s.first) != 1 {
		t.Errorf("%d failed: %q", s.failed, s.first)
	}
}

func TestTiming(t *testing.T) {
	var tm timing
	if tm.at(0.5) != 0 || tm.rate() != 0 {
		t.Error("numbers of nothing")
	}
	for i := 1; i <= 100; i++ {
		tm.took = append(tm.took, time.Duration(i)*time.Microsecond)
	}
	tm.elapsed = time.Second
	for q, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := tm.at(q); got < want-0.001 || got > want+0.001 {
			t.Errorf("at(%v) = %v, want %v", q, got, want)
		}
	}
	if tm.rate() != 100 {
		t.Errorf("rate %v", tm.rate())
	}
}

// TestLoad tests clients that fail. Each error counts. Operations before the measured
// time do not.
func TestLoad(t *testing.T) {
	l := load{clients: 2, time: time.Hour, op: func(_ *client, seq int) error {
		if seq%2 == 1 {
			return io.EOF
		}
		return nil
	}}
	got := l.run()
	if got.errs == 0 || got.err != io.EOF || len(got.took) < 2 {
		t.Errorf("%d errors (%v), %d operations", got.errs, got.err, len(got.took))
	}
	l.op = func(*client, int) error { return io.EOF }
	if got := l.run(); got.errs != 2*maxErrors || len(got.took) != 0 {
		t.Errorf("%d errors, %d operations", got.errs, len(got.took))
	}
}

// TestNames loads generated name spaces.
func TestNames(t *testing.T) {
	for _, n := range []int{0, 1, 1999, 2000, 2001, 12345} {
		b := bytes.NewBufferString("root {\n\tgen\n}\n")
		if n == 0 {
			b.Reset()
			b.WriteString("root {\n}\n")
		}
		appendGen(b, n)
		path := filepath.Join(t.TempDir(), "pmns")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		tree, err := pmnsload.Load(path, pmnsload.Options{})
		if err != nil {
			t.Fatalf("%d names: %v", n, err)
		}
		got := 0
		for range tree.All("") {
			got++
		}
		if got != n {
			t.Errorf("%d names, want %d", got, n)
		}
		for i := range n {
			name, id := genName(i, n)
			if got, kind := tree.PMID(name); kind != pmnsload.Leaf || got != id {
				t.Fatalf("%s is %v (%v), want %v", name, got, kind, id)
			}
		}
	}
}

// made returns a result with the same number in all rounds.
func made(scenario string, c, here float64, shows ...measure) result {
	r := result{Scenario: scenario, About: "what", shows: shows}
	for _, m := range shows {
		for i, v := range [sides]float64{c, here} {
			r.Sides[i].Rounds = append(r.Sides[i].Rounds, map[string]float64{m.key: v})
		}
	}
	return r
}

func TestRow(t *testing.T) {
	for _, tt := range []struct {
		m       measure
		c, here float64
		want    string
	}{
		{measure{key: "p50"}, 20, 10, "20|10|0.50||"},
		{measure{key: "p50", goal: 0.9}, 20, 10, "20|10|0.50||≤ 0.90"},
		{measure{key: "p50", goal: 0.9}, 20, 19.5, "20|19.5|0.97||≤ 0.90 (missed)"},
		{measure{key: "rate", goal: 2, higher: true}, 1000, 2500, "1000|2500|2.50||≥ 2"},
		{measure{key: "rate", goal: 2, higher: true}, 1000, 1500, "1000|1500|1.50||≥ 2 (missed)"},
		{measure{key: "RSS", goal: 20, own: true}, 8, 19, "8|19|2.38||≤ 20"},
		{measure{key: "RSS", goal: 20, own: true}, 8, 21, "8|21|2.62||≤ 20 (missed)"},
		{measure{key: "growth", goal: 1}, 0, 3, "0|3|||≤ 1 (missed)"},
	} {
		r := made("s", tt.c, tt.here, tt.m)
		if got := strings.Join(tt.m.row(&r), "|"); got != tt.want {
			t.Errorf("%+v, %v and %v: %s, want %s", tt.m, tt.c, tt.here, got, tt.want)
		}
	}
	r := result{}
	if got := strings.Join(measure{key: "p50", goal: 1}.row(&r), "|"); got != "-|-|||≤ 1 (missed)" {
		t.Errorf("of nothing: %s", got)
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.50", 0.0421: "0.042", 12.345: "12.3", 1234.5: "1234", 0.00009: "9e-05", -1.5: "-1.5"} {
		if got := number(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	var s side
	if _, ok := s.median("x"); ok {
		t.Error("median of nothing")
	}
	for i, want := range []float64{3, 2, 2, 3} {
		s.Rounds = append(s.Rounds, map[string]float64{"x": []float64{3, 1, 2, 4}[i]})
		if i == 3 {
			want = 2.5
		}
		if got, ok := s.median("x"); !ok || got != want {
			t.Errorf("of %v: %v, want %v", s.Rounds, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	var r result
	for i, v := range []float64{20, 25, 22} {
		if x, ok := r.Sides[theirs].spread("p50"); ok != (i > 1) {
			t.Errorf("%v of %d rounds", x, i)
		}
		r.Sides[theirs].Rounds = append(r.Sides[theirs].Rounds, map[string]float64{"p50": v, "growth": float64(i - 1)})
	}
	if got := strings.Join(measure{key: "p50"}.row(&r), "|"); got != "22|-||1.25|" {
		t.Errorf("row %q", got)
	}
	r.Sides[ours].Rounds = []map[string]float64{{"p50": 11}}
	if got := strings.Join(measure{key: "p50", blocks: true}.row(&r), "|"); got != "22|11|C pmcd blocks|1.25|" {
		t.Errorf("row %q", got)
	}
	if x, ok := r.Sides[theirs].spread("growth"); ok {
		t.Errorf("%v of numbers that are not all positive", x)
	}
}

// TestReport writes all kinds of files.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	// No result is for the second table.
	const begin, second = "before\n<!-- bench: traverse-100k name-100k -->\n", "<!-- /bench -->\nbetween\n<!-- bench: storm-64 -->\nkept\n<!-- /bench -->\nafter\n"
	if err := os.WriteFile(file, []byte(begin+"old\n"+second), 0o644); err != nil {
		t.Fatal(err)
	}
	o := &options{into: file, json: filepath.Join(dir, "j"), text: filepath.Join(dir, "t")}
	p50, rate := measure{key: "p50", unit: "µs"}, measure{key: "rate", unit: "1/s", higher: true}
	results := []result{
		made("name-1k", 16, 15, p50), made("name-100k", 18, 15, p50),
		made("traverse-1k", 900, 15000, rate), made("traverse-100k", 7, 400, rate),
		made("clients", 30, 20, measure{key: "p50@0"}, measure{key: "p50@10"}, measure{key: "p50@1000"}),
	}
	slow := made("calm-20", 900, 450, measure{key: "cpu+agents", unit: "µs", goal: 0.6}, p50)
	slow.calm = true
	results = append(results, slow)
	results[0].Sides[theirs].Errors, results[0].Sides[theirs].Error = 3, "lost"
	if err := o.report(results); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.text)
	if err != nil || !strings.Contains(string(text), "| name-1k: what | p50, µs | 16 | 15 | 0.94 |  |  |") ||
		!strings.Contains(string(text), `C pmcd: 3 failed, the first with "lost"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if at := strings.Index(string(text), "| calm-20: what | cpu+agents, µs | 900 | 450 | 0.50 |  | ≤ 0.60 |\n|  | p50, µs |"); at < 0 ||
		at > strings.Index(string(text), "| name-1k: what") || strings.Count(string(text), longHead) != 2 {
		t.Errorf("no table of group calm before the other:\n%s", text)
	}
	if err := insert(file, results); err != nil { // once more
		t.Error(err)
	}
	text, err = os.ReadFile(file)
	if want := begin + "\n" + host() + ".\n\n" + shortHead + "| name-100k: what | p50, µs | 18 | 15 | 0.83 |\n| traverse-100k: what | rate, 1/s | 7 | 400 | 57.1 |\n\n" + second; err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	for _, bad := range []string{"", begin, begin + second + "<!-- bench: x -->\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := insert(file, results); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	var back struct{ Results []result }
	text, err = os.ReadFile(o.json)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	if err != nil || len(back.Results) != len(results) || back.Results[1].Sides[ours].Rounds[0]["p50"] != 15 {
		t.Errorf("%v: %+v", err, back)
	}
}

func TestPick(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios {
		if seen[s.name] || len(s.shows) == 0 || s.about == "" {
			t.Errorf("scenario %q: twice, or shows nothing", s.name)
		}
		seen[s.name] = true
	}
	o := &options{names: "start,name"}
	got, err := o.pick()
	if err != nil || len(got) != 2 || got[0].name != "start" || got[1].name != "name" {
		t.Errorf("%+v, %v", got, err)
	}
	calm, hosts := 0, 0
	for _, s := range scenarios {
		if s.calm {
			calm++
		}
		if s.host {
			hosts++
		}
	}
	closed := len(scenarios) - calm - hosts
	for names, want := range map[string]int{"all": calm + closed, "calm": calm, "closed": closed, "calm-20,closed": closed + 1, "hosts": hosts} {
		o.names = names
		if got, err := o.pick(); err != nil || len(got) != want {
			t.Errorf("%s: %d scenarios, not %d, %v", names, len(got), want, err)
		}
	}
	o.names = "name,nothing"
	if _, err := o.pick(); err == nil {
		t.Error("no error for an unknown name")
	}
}
