package openmetrics

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/testutil"
)

// What a source may save counts once, also after pages that failed and a restart.
func TestCountsSaved(t *testing.T) {
	h := newHost(t)
	a := h.open(Options{})
	check := func(when string) {
		t.Helper()
		s, want := a.sources[0], 0
		for _, m := range s.metrics {
			want += len(h.savedFile(instSerial(s.cluster, m.item)))
		}
		if over := want - s.bytes; over < 0 || over > pickleFrame*len(s.metrics) {
			t.Errorf("%s: names of %d bytes are in files of %d", when, s.bytes, want)
		}
	}
	h.source("a", "m{l=\"1\"} 1\nn{l=\"1\"} 1\n")
	Prepare(t.Context(), a)
	check("at the start")
	h.handle("a", func(w http.ResponseWriter, _ *http.Request) { // it is cut
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "m{l=\"1\"} 1\nm{l=\"2\"} 1\no{l=\"1\"} 1\n")
	})
	for range 3 {
		values(t, a, "a")
	}
	check("after pages that were cut")
	h.source("a", "m{l=\"3\"} 1\no{l=\"\u00e9\"} 1\n")
	values(t, a, "a")
	check("after new names")
	a.Close()
	a = h.start(Options{})
	check("after a restart")
}

// Labels and strings of instances that a page does not have any more are not kept without limit.
func TestForgetsGone(t *testing.T) {
	h := newHost(t)
	h.source("a", "# PCP5 s 1.1.1 string 1 instant none\ns{l=\"1\"} long\ns{l=\"2\"} text\n")
	a := h.start(Options{})
	values(t, a, "a")
	s := a.sources[0]
	m := s.metrics["s"]
	if want := len(`s{l="1"}longs{l="2"}text`); s.held != want {
		t.Errorf("%d bytes are held, want %d", s.held, want)
	}
	s.held += maxHeld
	h.source("a", "# PCP5 s 1.1.1 string 1 instant none\ns{l=\"2\"} text2\n")
	if got := values(t, a, "a"); got != `a.s "1 l:2" "text2"` {
		t.Error(got)
	}
	if want := maxHeld + len(`s{l="2"}text2`); s.held != want || m.raw[0] != "" || m.texts[0] != "" || m.raw[1] == "" {
		t.Errorf("%d bytes are held, want %d; %q, %q", s.held, want, m.raw, m.texts)
	}
	s.held -= maxHeld
	h.handle("a", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "s{l=\"3\"} cut\nnew{l=\"1\"} 1\n")
	})
	values(t, a, "a")
	if want := len(`s{l="2"}text2s{l="3"}cut`); s.held != want {
		t.Errorf("after a page that was cut, %d bytes are held, want %d", s.held, want)
	}
}

// While the saved files of a source are read, requests for others go on, and for its other metrics.
func TestSavedFilesAreSlow(t *testing.T) {
	h := newHost(t)
	h.source("slow", "m{l=\"1\"} 1\n")
	h.source("good", "x 1\n")
	a := h.start(Options{})
	values(t, a, "slow", "good")
	a.Close()

	const items, insts = "/144.2.py", "/144.6144.py" // of slow
	for _, file := range []string{items, insts} {
		t.Run(file[1:], func(t *testing.T) {
			reading, release := make(chan struct{}), make(chan struct{})
			old := readSaved
			readSaved = func(path string, most int64) ([]byte, error) {
				if strings.HasSuffix(path, file) {
					close(reading)
					select {
					case <-release:
					case <-time.After(testutil.Hangs):
						t.Error("requests for others wait for a saved file")
					}
				}
				return old(path, most)
			}
			a := h.open(Options{})
			defer func() { readSaved = old }()
			a.scan()
			a.timeout = short
			testutil.Eventually(t, "the other source has a value", func() bool { return values(t, a, "good") == "good.x 1" })
			a.sources[1].start(a.ctx, a.slots, time.Hour)
			<-reading
			if got := status(t, a, "slow"); got != "unknown" { // it needs the lock
				t.Errorf("status %s", got)
			}
			testutil.Eventually(t, "values while a saved file is read", func() bool {
				got := values(t, a, "good", "control.calls")
				return strings.Contains(got, "good.x 1") && strings.Contains(got, `"slow" 1`)
			})
			close(release)
			testutil.Eventually(t, "it has been read", func() bool { return values(t, a, "slow") == `slow.m "0 l:1" 1` })
		})
	}
}
