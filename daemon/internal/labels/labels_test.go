package labels

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

// newHost returns the labels of dir.
func newHost(dir string) *Host {
	log := slog.New(slog.DiscardHandler)
	return New(Config{
		Dir:      dir,
		Hostname: func() (string, error) { return "host", nil },
		Log:      log,
		Limiter:  diag.NewLogLimiter(log),
		Debug:    diag.NewDebug("", log),
	})
}

// A client that asks a few times in a second sees each change. Clients that ask faster get
// what was read before, until they ask a second later, or after a reload.
func TestReads(t *testing.T) {
	for _, tt := range []struct {
		name  string
		large int           // size of another label, in bytes
		calm  time.Duration // between requests that see each change
	}{
		{"a small file", 0, 100 * time.Millisecond},
		{"a large file", 60 << 10, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := testutil.WriteFiles(t, map[string]string{"labels/large": `{"large":"` + strings.Repeat("x", tt.large) + `"}`, "labels/n": `{"n":0}`})
			h := newHost(dir)
			now, n := time.Unix(1000, 0), 0
			// change changes the label n, and reports whether the next request sees it.
			change := func() (seen bool) {
				t.Helper()
				n++
				if err := os.WriteFile(filepath.Join(dir, "labels", "n"), fmt.Appendf(nil, `{"n":%d}`, n), 0o600); err != nil {
					t.Fatal(err)
				}
				set, changed, err := h.Current(now)
				seen = strings.Contains(string(set.JSON), fmt.Sprintf(`"n":%d}`, n))
				if err != nil || changed != seen && n > 1 {
					t.Fatalf("request %d: %.200s, changed: %t, %v", n, set.JSON, changed, err)
				}
				return seen
			}
			for range 20 {
				if now = now.Add(tt.calm); !change() {
					t.Fatalf("request %d, %v after the one before, does not see a change", n, tt.calm)
				}
			}
			reads := 0
			for range 200 {
				if change() {
					reads++
				}
			}
			if reads > 50 || change() {
				t.Errorf("200 requests at once see %d changes", reads)
			}
			if !h.Refresh(now) || h.Refresh(now) || !strings.Contains(h.Text(), fmt.Sprintf(`"n":%d`, n)) {
				t.Errorf("a reload has not read the files: %.200s", h.Text())
			}
			now = now.Add(10 * tt.calm)
			if !change() {
				t.Errorf("%v after the flood, a request does not see a change", 10*tt.calm)
			}
			if err := os.RemoveAll(filepath.Join(dir, "labels")); err != nil {
				t.Fatal(err)
			}
			if set, changed, err := h.Current(now.Add(10 * tt.calm)); err == nil || !changed {
				t.Errorf("without the directory: %s, changed: %t", set.JSON, changed)
			}
		})
	}
}

// Labels of a client are for the client alone, and replace those of the host.
func TestLabelsOfClients(t *testing.T) {
	h := newHost(testutil.WriteFiles(t, map[string]string{"labels/a": `{"site":"here","userid":"none"}`}))
	before, _, _ := h.Current(time.Unix(1000, 0))
	set, _, err := h.Current(time.Unix(1000, 0), Named[uint32]("userid", 7, pdu.LabelOptional))
	if err != nil || !strings.Contains(string(set.JSON), `"site":"here","userid":7}`) {
		t.Errorf("got %s, %v", set.JSON, err)
	}
	if after, _, _ := h.Current(time.Unix(1000, 0)); string(after.JSON) != string(before.JSON) || !strings.Contains(string(after.JSON), `"userid":"none"`) {
		t.Errorf("another client gets %s", after.JSON)
	}
	h.full = time.Unix(2000, 0) // no files are read: clients have what was read last in common
	for id := range uint32(3) {
		name := fmt.Sprint("c", id)
		set, _, err := h.Current(time.Unix(1000, 0), Named(name, id, pdu.LabelOptional))
		if text := string(set.JSON); err != nil || !strings.Contains(text, fmt.Sprintf(`"%s":%d`, name, id)) || strings.Count(text, `"c`) != 1 {
			t.Errorf("client %d gets %s, %v", id, text, err)
		}
	}
}

// While one request reads files, others do not wait, unless no file was read before.
func TestReadWaits(t *testing.T) {
	h := newHost(testutil.WriteFiles(t, map[string]string{"labels/a": `{"a":1}`}))
	load, begun, goOn := h.load, make(chan struct{}), make(chan struct{})
	h.load = func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) {
		begun <- struct{}{}
		<-goOn
		return load(warn)
	}
	now := time.Unix(1000, 0)
	states := make(chan *state, 2)
	get := func() {
		s, _ := h.current(now)
		states <- s
	}
	go get()
	<-begun
	if h.Text() != "" {
		t.Errorf("at first: %s", h.Text())
	}
	goOn <- struct{}{}
	first := <-states

	go get()
	<-begun
	if s, changed := h.current(now); s != first || changed {
		t.Errorf("while files are read: %s, changed: %t", s.json, changed)
	}
	goOn <- struct{}{}
	if second := <-states; second == first || second.json != `{"a":1}` {
		t.Errorf("got %s, want what was read again", second.json)
	}
}

// BenchmarkLabels is a request of a client that sends one after the other.
func BenchmarkLabels(b *testing.B) {
	for _, bb := range []struct {
		name string
		get  func(h *Host)
	}{
		{"read", func(h *Host) { h.Refresh(time.Now()) }},
		{"flood", func(h *Host) { h.Current(time.Now()) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h := newHost(testutil.WriteFiles(b, map[string]string{"labels/a": `{"site": "here"}`}))
			for b.Loop() {
				bb.get(h)
			}
		})
	}
}
