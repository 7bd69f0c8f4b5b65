package openmetrics

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// newAgent returns an agent that is not prepared.
func newAgent(t testing.TB, o Options) *agent {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a := open(Domain, o)
	t.Cleanup(func() { a.Close() })
	return a
}

// A host has a directory of sources, one of saved files, and a server of pages.
type host struct {
	t     testing.TB
	dir   string
	saved string
	url   string
	log   *lines

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
}

func newHost(t testing.TB) *host {
	h := &host{t: t, dir: t.TempDir(), log: new(lines), pages: make(map[string]http.HandlerFunc)}
	vars := t.TempDir()
	t.Setenv("PCP_VAR_DIR", vars)
	h.saved = filepath.Join(vars, "config", "pmda")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		f := h.pages[r.URL.Path]
		h.mu.Unlock()
		if f == nil {
			http.NotFound(w, r)
			return
		}
		f(w, r)
	}))
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

// file writes a file of the configuration.
func (h *host) file(name, text string, mode os.FileMode) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
}

// source adds a source whose page is text. more are further lines of its file.
func (h *host) source(name, text string, more ...string) {
	h.t.Helper()
	h.handle(name, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, text)
	}, more...)
}

func (h *host) handle(name string, f http.HandlerFunc, more ...string) {
	h.t.Helper()
	h.mu.Lock()
	h.pages["/"+name] = f
	h.mu.Unlock()
	path := name + ".url"
	if _, err := os.Stat(filepath.Join(h.dir, path)); err != nil {
		h.file(path, strings.Join(append([]string{h.url + "/" + name}, more...), "\n"), 0o644)
	}
}

// start returns an agent that has read its sources.
func (h *host) start(o Options) *agent {
	h.t.Helper()
	a := h.open(o)
	Prepare(h.t.Context(), a)
	return a
}

// open returns an agent that has not read its sources.
func (h *host) open(o Options) *agent {
	h.t.Helper()
	o.Dir = h.dir
	o.Timeout = cmp.Or(o.Timeout, time.Minute) // on a busy host
	o.Log = slog.New(slog.NewTextHandler(h.log, nil))
	return newAgent(h.t, o)
}

// again makes the next request for names read the sources without metrics again.
func again(a *agent) {
	for _, s := range a.sources {
		s.tried = time.Time{}
	}
}

// savedFile returns the text of a saved file, "" if there is none.
func (h *host) savedFile(serial int) string {
	b, err := os.ReadFile(filepath.Join(h.saved, fmt.Sprintf("%d.%d.py", Domain, serial)))
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	return string(b)
}

// values fetches all metrics at or below names, with instances, as text.
func values(t testing.TB, a *agent, names ...string) string {
	t.Helper()
	var ids []pdu.PMID
	byID := make(map[pdu.PMID]string)
	for _, name := range names {
		list, err := a.Traverse(t.Context(), agents.Origin{}, "openmetrics."+name)
		if err != nil {
			return name + ": " + err.Error()
		}
		slices.Sort(list)
		for _, full := range list {
			id, err := a.PMID(t.Context(), agents.Origin{}, full)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
			byID[id] = strings.TrimPrefix(full, "openmetrics.")
		}
	}
	var out []string
	for _, set := range fetch(t, a, new(pdu.Profile), ids...).Sets {
		s := byID[set.PMID]
		if set.Err < 0 {
			s += " " + set.Err.Error()
		}
		for _, v := range set.Values {
			if v.Inst != pdu.NoInst {
				d, err := a.Desc(t.Context(), agents.Origin{}, set.PMID)
				if err != nil {
					t.Fatal(err)
				}
				name, err := a.InstName(t.Context(), agents.Origin{}, d.InDom, v.Inst)
				if err != nil {
					t.Fatal(err)
				}
				s += fmt.Sprintf(" %q", name)
			}
			s += " " + valueText(v, set.Format)
		}
		out = append(out, s)
	}
	return strings.Join(out, "\n")
}

func valueText(v pdu.Value, format int32) string {
	if format == pdu.FormatInsitu {
		return fmt.Sprint(int32(v.Word))
	}
	b := v.Block
	switch v.Type {
	case pdu.MetricString:
		return fmt.Sprintf("%q", strings.TrimRight(string(b), "\x00"))
	case pdu.MetricFloat:
		return fmt.Sprintf("%x", b)
	}
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	if v.Type == pdu.MetricDouble {
		return fmt.Sprint(math.Float64frombits(n))
	}
	return fmt.Sprint(n)
}

// fetch fetches metrics.
func fetch(t testing.TB, a *agent, p *pdu.Profile, ids ...pdu.PMID) *pdu.Result {
	t.Helper()
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	if err := a.Fetch(t.Context(), &agents.FetchRequest{PMIDs: ids, Profile: p}, &w); err != nil {
		t.Fatal(err)
	}
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r := new(pdu.Result)
	if _, err := pdu.ParseInto(b, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// status is the value of openmetrics.control.status for a source.
func status(t testing.TB, a *agent, source string) string {
	t.Helper()
	for _, s := range a.sources {
		if s.name == source {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.stats.status
		}
	}
	t.Fatalf("no source %s in %v", source, slices.Collect(maps.Keys(a.byCluster)))
	return ""
}

// lines are what has been logged.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// short is a time limit for sources that do not reply.
const short = 20 * time.Millisecond
