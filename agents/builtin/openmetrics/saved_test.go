package openmetrics

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// If files cannot be written, all has values and numbers, and the log and the status say that these are
// not saved. They are saved later, if that is possible.
func TestNotSaved(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(t *testing.T, dir string)
	}{
		{"a file in the place of the directory", func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"a directory that may not be written", func(t *testing.T, dir string) {
			if err := os.Symlink("/sys", dir); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			if err := os.MkdirAll(filepath.Dir(h.saved), 0o755); err != nil {
				t.Fatal(err)
			}
			tt.state(t, h.saved)
			h.source("a", "m{l=\"1\"} 1\nn 3\n")
			a := h.start(Options{})
			check := func(when, want string) {
				t.Helper()
				if got := values(t, a, "a"); got != want {
					t.Errorf("%s: %s, want %s", when, got, want)
				}
			}
			check("at first", "a.m \"0 l:1\" 1\na.n 3")
			h.source("a", "n 3\nm{l=\"2\"} 2\nm{l=\"1\"} 1\n{\n")
			check("with a new instance", "a.m \"0 l:1\" 1 \"1 l:2\" 2\na.n 3")
			if got := status(t, a, "a"); !strings.Contains(got, "1 lines are left out") || !strings.Contains(got, notSaved) || !strings.Contains(got, h.saved) {
				t.Errorf("status %s", got)
			}
			if got := values(t, a, "control.status"); strings.Count(got, notSaved) != 2 {
				t.Errorf("status of the agent and the source: %s", got)
			}
			for range 3 {
				a.scan()
				values(t, a, "a")
			}
			if n := strings.Count(h.log.String(), notSaved); n > 3 { // of the agent, of the source, and with the bad line
				t.Errorf("%d lines:\n%s", n, h.log)
			}
			h.handle("a", func(w http.ResponseWriter, _ *http.Request) { // it is cut
				w.Header().Set("Content-Length", "1000")
				fmt.Fprint(w, "m{l=\"3\"} 3\no 1\n")
			})
			values(t, a, "a")

			if err := os.Remove(h.saved); err != nil {
				t.Fatal(err)
			}
			h.source("a", "m{l=\"1\"} 1\nm{l=\"2\"} 2\nn 3\n")
			check("in the minute after a failure", "a.m \"0 l:1\" 1 \"1 l:2\" 2\na.n 3")
			if got := h.savedFile(1); got != "" {
				t.Errorf("saved: %q", got)
			}
			a.saved, a.sources[0].saved = time.Time{}, time.Time{}
			a.scan()
			check("later", "a.m \"0 l:1\" 1 \"1 l:2\" 2\na.n 3")
			if got := values(t, a, "control.status"); strings.Contains(got, notSaved) {
				t.Errorf("status of the agent and the source: %s", got)
			}
			a.Close()
			for serial, want := range map[int]string{
				0:                "(lp0\nVcontrol\np1\naVa\np2\na.I00\n.",
				1:                "(lp0\nVm\np1\naVn\np2\na.I00\n.",
				instSerial(1, 0): "(lp0\nVl:1\np1\naVl:2\np2\na.I01\n.",
			} {
				if got := h.savedFile(serial); got != want {
					t.Errorf("%d: %q, want %q", serial, got, want)
				}
			}
			a = h.start(Options{})
			check("after a restart", "a.m \"0 l:1\" 1 \"1 l:2\" 2\na.n 3")
		})
	}
}

// In a directory that may not be searched there may be files, which are not replaced later.
func TestHiddenDirectory(t *testing.T) {
	h := newHost(t)
	h.source("a", "m{l=\"1\"} 1\n")
	oldRead, oldLstat := readSaved, lstat
	defer func() { readSaved, lstat = oldRead, oldLstat }()
	denied := func(path string) error { return &os.PathError{Op: "open", Path: path, Err: syscall.EACCES} }
	readSaved = func(path string, _ int64) ([]byte, error) { return nil, denied(path) }
	lstat = func(path string) (os.FileInfo, error) { return nil, denied(path) }
	if err := os.MkdirAll(filepath.Dir(h.saved), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/sys", h.saved); err != nil {
		t.Fatal(err)
	}
	a := h.start(Options{})
	if got, want := values(t, a, "a"), `a.m "0 l:1" 1`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	lstat = oldLstat // it may be searched now, and has a file of the sources
	if err := os.Remove(h.saved); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.saved, 0o755); err != nil {
		t.Fatal(err)
	}
	const file = "(lp0\nVcontrol\np1\naVz\np2\na.I00\n."
	if err := os.WriteFile(filepath.Join(h.saved, "144.0.py"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	a.saved, a.sources[0].saved = time.Time{}, time.Time{}
	a.scan()
	values(t, a, "a")
	if got := h.savedFile(0); got != file {
		t.Errorf("the file has become %q", got)
	}
	if got := values(t, a, "control.status"); !strings.Contains(got, "is left as it is until the agent starts again") {
		t.Errorf("status %s", got)
	}
	if got, want := h.savedFile(1), "(lp0\nVm\np1\na.I00\n."; got != want { // there was no file
		t.Errorf("saved: %q, want %q", got, want)
	}
	h.source("a", "m{l=\"1\"} 1\nn 2\n")
	values(t, a, "a")
	if got, want := h.savedFile(1), "(lp0\nVm\np1\naVn\np2\na.I00\n."; got != want {
		t.Errorf("saved later: %q, want %q", got, want)
	}
}

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
