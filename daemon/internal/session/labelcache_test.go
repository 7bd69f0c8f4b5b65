package session

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

// countingLabels returns the labels of dir, and the number of times that files were read.
func countingLabels(dir string) (h *hostLabels, reads *atomic.Int64) {
	log := slog.New(slog.DiscardHandler)
	h = &hostLabels{
		source:   LabelSource{Dir: dir},
		hostname: func() string { return "host" },
		limiter:  diag.NewLogLimiter(log),
		debug:    diag.NewDebug("", log),
	}
	reads = new(atomic.Int64)
	h.load = func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) {
		reads.Add(1)
		return h.source.load(warn)
	}
	return h, reads
}

// A flood of requests reads files a few times. Requests now and then see each change.
func TestLabelReads(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"labels/a": `{"a":0}`})
	h, reads := countingLabels(dir)
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "labels", "a"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const cost = labelCost + labelCostFile
	now := time.Unix(1000, 0)
	for i := range 100 {
		text := `{"a":` + string(rune('0'+i%10)) + `}` // of the same size
		write(text)
		now = now.Add(cost)
		set, changed := h.current(now)
		if set.json != text || changed != (i > 0) {
			t.Fatalf("request %d: %s, changed: %t; want %s", i, set.json, changed, text)
		}
	}
	now = now.Add(time.Second)
	reads.Store(0)
	for range 10000 {
		h.current(now)
	}
	const most = int64(labelBurst/cost) + 1
	if n := reads.Load(); n != most {
		t.Errorf("10000 requests at once read files %d times, want %d", n, most)
	}
	reads.Store(0)
	for range 10000 {
		now = now.Add(time.Second / 10000)
		h.current(now)
	}
	if n, want := reads.Load(), int64(time.Second/cost); n < want-1 || n > want+1 {
		t.Errorf("10000 requests in a second read files %d times, want about %d", n, want)
	}

	write(`{"a":"new"}`)
	if set, changed := h.current(now); changed || strings.Contains(set.json, "new") {
		t.Errorf("in the flood: %s, changed: %t", set.json, changed)
	}
	if !h.refresh(now) || h.text() != `{"a":"new"}` {
		t.Errorf("a reload has not read the files: %s", h.text())
	}
	if err := os.RemoveAll(filepath.Join(dir, "labels")); err != nil {
		t.Fatal(err)
	}
	if set, changed := h.current(now.Add(time.Second)); set.err == nil || !changed {
		t.Errorf("without the directory: %v, changed: %t", set.err, changed)
	}
}

// Large files are read less often.
func TestLabelReadsLarge(t *testing.T) {
	h, reads := countingLabels(testutil.WriteFiles(t, map[string]string{
		"labels/a": `{"a":"` + strings.Repeat("x", 60<<10) + `"}`,
		"labels/b": `{"b":"` + strings.Repeat("x", 60<<10) + `"}`,
	}))
	now := time.Unix(1000, 0)
	for range 1000 {
		h.current(now)
	}
	if n := reads.Load(); n != 1 {
		t.Errorf("1000 requests at once read files %d times, want 1", n)
	}
}

// While one request reads files, others do not wait, unless no file was read before.
func TestLabelReadWaits(t *testing.T) {
	h, reads := countingLabels(testutil.WriteFiles(t, map[string]string{"labels/a": `{"a":1}`}))
	load, begun, goOn := h.load, make(chan struct{}), make(chan struct{})
	h.load = func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) {
		begun <- struct{}{}
		<-goOn
		return load(warn)
	}
	now := time.Unix(1000, 0)
	sets := make(chan *hostLabelSet, 2)
	get := func() {
		set, _ := h.current(now)
		sets <- set
	}
	go get()
	<-begun
	if h.text() != "" {
		t.Errorf("at first: %s", h.text())
	}
	goOn <- struct{}{}
	first := <-sets

	go get()
	<-begun
	if set, changed := h.current(now); set != first || changed {
		t.Errorf("while files are read: %s, changed: %t", set.json, changed)
	}
	goOn <- struct{}{}
	if second := <-sets; second == first || second.json != `{"a":1}` || reads.Load() != 2 {
		t.Errorf("got %s; files were read %d times", second.json, reads.Load())
	}
}

// BenchmarkContextLabels is a request of a client that sends one after the other.
func BenchmarkContextLabels(b *testing.B) {
	for _, bb := range []struct {
		name string
		get  func(h *hostLabels)
	}{
		{"read", func(h *hostLabels) { h.refresh(time.Now()) }},
		{"flood", func(h *hostLabels) { h.current(time.Now()) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h, _ := countingLabels(testutil.WriteFiles(b, map[string]string{"labels/a": `{"site": "here"}`}))
			for b.Loop() {
				bb.get(h)
			}
		})
	}
}
