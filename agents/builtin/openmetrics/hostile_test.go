package openmetrics

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Series that share an instance, or are left out by a filter, are not kept without limit.
func TestForgetsSeries(t *testing.T) {
	h := newHost(t)
	h.source("a", "a 1\na{x=\"1\"} 2\nb{x=\"1\"} 1\n", "FILTER: EXCLUDE METRIC b")
	a := h.start(Options{})
	s := a.sources[0]
	h.source("a", "a 1\na{x=\"2\"} 2\nb{x=\"2\"} 1\n")
	values(t, a, "a")
	want := 0
	for key := range s.series {
		want += len(key)
	}
	if len(s.series) != 5 || s.keys != want {
		t.Errorf("%d series with keys of %d bytes, want 5 of %d", len(s.series), s.keys, want)
	}
	s.keys += maxHeld
	values(t, a, "a")
	if len(s.series) != 0 || s.keys != 0 {
		t.Errorf("%d series with keys of %d bytes are kept", len(s.series), s.keys)
	}
	if got := values(t, a, "a"); got != "a.a 2" || len(s.series) != 3 {
		t.Errorf("afterwards %s, %d series", got, len(s.series))
	}
}

// The labels of a metric whose instances have more names of labels than a set can have do not take
// long, and a client that has gone is not waited for.
func TestTooManyLabels(t *testing.T) {
	h := newHost(t)
	var page strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&page, "m{l%d=\"\"} 1\n", i)
	}
	h.source("a", page.String())
	a := h.start(Options{})
	s := a.sources[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if labels, err := s.itemLabels(t.Context(), s.metrics["m"]); err != nil || len(labels) != maxSetLabels+1 {
		t.Errorf("%d labels, %v, want one more than %d", len(labels), err, maxSetLabels)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if labels, err := s.itemLabels(ended, s.metrics["m"]); err == nil {
		t.Errorf("%d labels for a request that has ended", len(labels))
	}
}

// Wrong units are in the log once, and only if the page has been read. That line has only the begin
// of what the page says.
func TestWrongUnits(t *testing.T) {
	h := newHost(t)
	a := h.start(Options{})
	name := "m" + strings.Repeat("m", 900)
	page := fmt.Sprintf("# PCP5 %s 1.1.1 double PM_INDOM_NULL instant %s\n%[1]s 1\n", name, strings.Repeat("x", 50_000))
	h.handle("a", func(w http.ResponseWriter, _ *http.Request) { // it is cut
		w.Header().Set("Content-Length", "1000000")
		fmt.Fprint(w, page)
	})
	for range 3 {
		again(a)
		values(t, a, "a")
	}
	if got := h.log.String(); strings.Contains(got, "units") {
		t.Errorf("pages that were cut:\n%.1000s", got)
	}
	h.source("a", page)
	for range 3 {
		again(a)
		values(t, a, "a")
	}
	var lines []string
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, "units") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 1 || len(lines[0]) > 2000 {
		t.Errorf("%d lines about units, want a short one:\n%.3000s", len(lines), lines)
	}
}
