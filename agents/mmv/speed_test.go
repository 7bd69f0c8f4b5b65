package mmv

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// updates has an update of each kind, of a published registry.
func updates(tb testing.TB) map[string]func() {
	r := Must(New(Config{Name: "f", Dir: tb.TempDir()}))
	c, fc := Must(r.Counter(Metric{Name: "c", Units: pdu.Count})), Must(r.FloatCounter(Metric{Name: "fc"}))
	g, fg := Must(r.Gauge(Metric{Name: "g"})), Must(r.FloatGauge(Metric{Name: "fg"}))
	s, e := Must(r.String(Metric{Name: "s"})), Must(r.Elapsed(Metric{Name: "e"}))
	x := Must(Must(r.Instances(InDom{Names: []string{"a", "b", "c"}})).Counter(Metric{Name: "x"}))
	texts := [2]string{"idle", "busy"}
	n := 0
	publish(tb, r)
	tb.Cleanup(func() { r.Close() })
	return map[string]func(){
		"Counter.Inc":      c.Inc,
		"Counter.Set":      func() { c.Set(5) },
		"FloatCounter.Add": func() { fc.Add(0.5) },
		"Gauge.Set":        func() { g.Set(7) },
		"Gauge.Add":        func() { g.Add(-7) },
		"FloatGauge.Set":   func() { fg.Set(1.5) },
		"FloatGauge.Add":   func() { fg.Add(1.5) },
		"String.Set":       func() { n++; s.Set(texts[n%2]) },
		"Elapsed":          func() { e.Start(); e.Stop() },
		"Values.At":        func() { x.At("b").Inc() },
	}
}

func TestNoAllocations(t *testing.T) {
	for name, update := range updates(t) {
		if n := testing.AllocsPerRun(100, update); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for name, update := range updates(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				update()
			}
		})
	}
}

// Files that were replaced are unmapped.
func TestUnmapped(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // there is no /proc/self/maps
	}
	dir := t.TempDir()
	r := Must(New(Config{Name: "f", Dir: dir}))
	c := Must(r.Counter(Metric{Name: "c"}))
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(maps), dir)
	}
	const files = 20
	for range files {
		publish(t, r)
		c.Inc()
		r.outdated = true
	}
	// A cleanup runs some time after the collection. If none does, the test does not end.
	for mapped() > 1 {
		runtime.GC()
	}
	if mapped() != 1 || c.Value() != files {
		t.Errorf("%d files are mapped, value %d", mapped(), c.Value())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for mapped() > 0 {
		runtime.GC()
	}
}
