package openmetrics

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

func TestAgent(t *testing.T) {
	h := newHost(t)
	h.source("a", "# HELP x help\n# TYPE x counter\nx{l=\"1\"} 1\nx{l=\"2\"} 2\ny 3\n# PCP5 z 1.1.1 string PM_INDOM_NULL instant none\nzz text\n")
	a := h.start(Options{})
	agenttest.Test(t, a, pdu.NewPMID(Domain, 1, 0))
}

// A new source, new metrics and new instances have values at once, and their numbers stay.
func TestNumbers(t *testing.T) {
	h := newHost(t)
	h.source("b", "m{l=\"1\"} 1\nm{l=\"2\"} 2\nn 3\n")
	a := h.start(Options{})
	check := func(want string, names ...string) {
		t.Helper()
		if got := values(t, a, names...); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check(`b.m "0 l:1" 1 "1 l:2" 2`+"\nb.n 3", "b")
	fetch(t, a, new(pdu.Profile)) // names that are new have been reported
	h.source("a", "o 4\n")
	if _, err := a.PMID(t.Context(), agents.Origin{}, "openmetrics.a.o"); err != nil {
		t.Error(err)
	}
	if r := fetch(t, a, new(pdu.Profile)); r.Sec != pdu.StateNamesChange {
		t.Errorf("state changes of a fetch after new names: %d", r.Sec)
	}
	check("a.o 4", "a")
	h.source("b", "new{l=\"x\"} 5\nm{l=\"3\"} 6\nm{l=\"1\"} 7\n")
	check(`b.m "0 l:1" 7 "2 l:3" 6`+"\nb.n not available now", "b")
	check(`b.m "0 l:1" 7 "2 l:3" 6`+"\n"+`b.n not available now`+"\n"+`b.new "0 l:x" 5`, "b")
	for serial, want := range map[int]string{
		0:                "(lp0\nVcontrol\np1\naVb\np2\naVa\np3\na.I00\n.",
		1:                "(lp0\nVm\np1\naVn\np2\naVnew\np3\na.I00\n.",
		instSerial(1, 0): "(lp0\nVl:1\np1\naVl:2\np2\naVl:3\np3\na.I01\n.",
		instSerial(1, 1): "",
	} {
		if got := h.savedFile(serial); got != want {
			t.Errorf("%d: %q, want %q", serial, got, want)
		}
	}
	a.Close()
	a = h.start(Options{})
	check(`b.m "0 l:1" 7 "2 l:3" 6`+"\n"+`b.new "0 l:x" 5`, "b")

	// Some instances, in another order and twice, and some that there are not.
	some := &pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(Domain, instSerial(1, 0)), Exclude: true, Insts: []int32{2, 77, 0, 2, -5}}}}
	if r := fetch(t, a, some, pdu.NewPMID(Domain, 1, 0)); len(r.Sets[0].Values) != 2 || r.Sets[0].Values[0].Inst != 0 || r.Sets[0].Values[1].Inst != 2 {
		t.Errorf("instances 0 and 2: %+v", r.Sets)
	}
}

// Without its saved numbers a metric, or a source, has no values. The file is not touched.
func TestDamaged(t *testing.T) {
	for _, tt := range []struct {
		serial int
		want   string
	}{
		{0, "a: no metric of that name"},
		{1, "a: no metric of that name"},
		{instSerial(1, 0), "a.m\na.n 3"},
	} {
		h := newHost(t)
		h.source("a", "m{l=\"1\"} 1\nn 3\n")
		a := h.start(Options{})
		const want = "a.m \"0 l:1\" 1\na.n 3"
		if got := values(t, a, "a"); got != want {
			t.Fatal(got)
		}
		a.Close()
		right := h.savedFile(tt.serial)
		path := filepath.Join(h.saved, fmt.Sprintf("%d.%d.py", Domain, tt.serial))
		if err := os.WriteFile(path, []byte(right[:len(right)/2]), 0o644); err != nil {
			t.Fatal(err)
		}
		a = h.start(Options{})
		if got := values(t, a, "a"); got != tt.want {
			t.Errorf("%s is damaged: %s, want %s", path, got, tt.want)
		}
		if got := h.savedFile(tt.serial); got != right[:len(right)/2] {
			t.Errorf("%s was damaged and has become %q", path, got)
		}
		if !strings.Contains(h.log.String(), path) {
			t.Errorf("%s is not in the log: %s", path, h.log)
		}
		if err := os.WriteFile(path, []byte(right), 0o644); err != nil {
			t.Fatal(err)
		}
		fetch(t, a, new(pdu.Profile), pdu.NewPMID(Domain, 1, 0))
		again(a)
		if got := values(t, a, "a"); got != want {
			t.Errorf("%s has been restored: %s", path, got)
		}
	}
}

// Other sources have their values while a source hangs, and no second request waits for it.
func TestHangs(t *testing.T) {
	h := newHost(t)
	release := make(chan struct{})
	defer close(release)
	hang := func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	h.source("good", "x 1\n")
	h.source("header", "x 2\n")
	h.source("body", "x 3\n")
	a := h.start(Options{})
	if got, want := values(t, a, "good", "header", "body"), "good.x 1\nheader.x 2\nbody.x 3"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	h.handle("header", hang)
	h.handle("body", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; r.Context().Err() == nil; i++ { // it never ends
			fmt.Fprintf(w, "y%d 4\n", i%500)
			w.(http.Flusher).Flush()
		}
	})
	a.timeout = short / 2
	const want = "good.x 1\nheader.x not available now\nbody.x not available now"
	testutil.Eventually(t, "the source that answers has a value", func() bool {
		a.timeout *= 2 // on a busy host it takes long, too
		return values(t, a, "good", "header", "body") == want
	})
	testutil.Eventually(t, "reads end", func() bool {
		return strings.Contains(status(t, a, "header"), "no complete reply") && strings.Contains(status(t, a, "body"), "no complete reply")
	})
	a.timeout = time.Hour
	for range 3 { // each would take an hour
		if got := values(t, a, "good", "header", "body"); got != want {
			t.Errorf("again: %s, want %s", got, want)
		}
	}
	if got := h.savedFile(3); strings.Contains(got, "y1") {
		t.Errorf("names of a page that was not complete have numbers: %s", got)
	}
}

// A source that recovers has values again, as soon as a read has succeeded.
func TestRecovers(t *testing.T) {
	h := newHost(t)
	h.source("a", "x 1\n")
	a := h.start(Options{})
	values(t, a, "a")
	h.handle("a", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	a.timeout = short
	values(t, a, "a")
	testutil.Eventually(t, "the read ends", func() bool { return status(t, a, "a") != "success" })
	h.source("a", "x 2\n")
	a.timeout = time.Minute
	testutil.Eventually(t, "x has a value", func() bool { return values(t, a, "a") == "a.x 2" })
	if n := strings.Count(h.log.String(), "without errors again"); n != 1 {
		t.Errorf("%d lines about the end of the errors: %s", n, h.log)
	}
}

// A page that exceeds a limit has no values and no effect on numbers. The next one has.
func TestLimits(t *testing.T) {
	endless := func(line string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "before 1\n")
			b := []byte(strings.Repeat(line, 1+(32<<10)/len(line)))
			for range (16 << 20) / len(b) {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		page http.HandlerFunc
		want string
	}{
		{"bytes", endless("#" + strings.Repeat(" comment", 1000) + "\n"), errPageTooLong.Error()},
		{"line", endless("x"), errPageTooLong.Error()},
		{"samples", endless("x 1\n"), errTooManySeries.Error()},
		{"gzip", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "gzip" {
				t.Error("gzip is not accepted")
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			line := "#" + strings.Repeat(" comment", 1000) + "\n"
			for range (4<<20)/len(line) + 1 {
				io.WriteString(z, line)
			}
			z.Close()
		}, errPageTooLong.Error()},
		{"status", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "x 1\n", http.StatusServiceUnavailable) }, "HTTP status 503 Service Unavailable"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "not http or https"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/a", http.StatusFound) }, "too many redirects"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "before 1\n")
		}, "unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.handle("a", tt.page)
			a := h.open(Options{Timeout: time.Minute})
			a.maxPage = 4 << 20
			Prepare(t.Context(), a)
			if got := status(t, a, "a"); !strings.Contains(got, tt.want) || !strings.Contains(got, h.dir+"/a.url") {
				t.Errorf("status %q, want %q", got, tt.want)
			}
			if !strings.Contains(h.log.String(), tt.want) {
				t.Errorf("the log has no %q: %s", tt.want, h.log)
			}
			if got := h.savedFile(1); got != "" {
				t.Errorf("saved: %q", got)
			}
			h.source("a", "before 1\n")
			again(a)
			if got := values(t, a, "a"); got != "a.before 1" {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// Names are never forgotten, so there is a limit. What has a number keeps its values.
func TestTooManyNames(t *testing.T) {
	h := newHost(t)
	h.source("a", "m{l=\"1\"} 1\n")
	a := h.start(Options{})
	a.sources[0].names = maxSavedNames
	h.source("a", "m{l=\"1\"} 1\nm{l=\"2\"} 2\nother 3\n")
	if got := values(t, a, "a"); got != `a.m "0 l:1" 1` {
		t.Errorf("values: %s", got)
	}
	if got := status(t, a, "a"); !strings.Contains(got, "1 samples are left out: too many names have been saved") {
		t.Errorf("status %s", got)
	}
	a.sources[0].names, a.sources[0].bytes = 1, maxSavedBytes
	h.source("a", "m{l=\"1\"} 1\nm{l=\"2\"} 2\n")
	if got := values(t, a, "a"); got != `a.m "0 l:1" 1`+"\na.other not available now" {
		t.Errorf("values with long names: %s", got)
	}
	var page bytes.Buffer
	for i := range maxItems + 10 {
		fmt.Fprintf(&page, "name%d 1\n", i)
	}
	h.source("b", page.String())
	if got := strings.Count(values(t, a, "b"), "\n"); got != maxItems-1 {
		t.Errorf("%d metrics", got+1)
	}
	if got := status(t, a, "b"); !strings.Contains(got, "10 samples are left out") {
		t.Errorf("status %s", got)
	}
}

// Scripts are killed with their children, and are off if an option says so.
func TestScripts(t *testing.T) {
	testutil.NeedProgram(t, "sh")
	h := newHost(t)
	pid := filepath.Join(t.TempDir(), "pid")
	h.file("ok.sh", "#!/bin/sh\necho 'x{a=\"b\"} 1'\n", 0o755)
	h.file("fails.sh", "#!/bin/sh\necho x 1\nexit 3\n", 0o755)
	h.file("hangs", "#!/bin/sh\nsleep 1000 & echo $! >"+pid+"; echo x 1\nwait\n", 0o755)
	h.file("many.sh", "#!/bin/sh\nwhile :; do echo '# comment'; done\n", 0o755)
	a := h.start(Options{Timeout: 10 * short})
	testutil.Eventually(t, "the script's metric has a value", func() bool { return values(t, a, "ok") == `ok.x "0 a:b" 1` })
	for name, want := range map[string]string{"fails": "exit status 3", "hangs": "no complete reply within", "many": "no complete reply within"} {
		testutil.Eventually(t, name+" has ended", func() bool {
			again(a)
			values(t, a, name)
			b, _ := os.ReadFile(pid)
			return strings.Contains(status(t, a, name), want) && (name != "hangs" || strings.HasSuffix(string(b), "\n"))
		})
	}
	testutil.Eventually(t, "the child of the script is dead", func() bool {
		b, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	a.Close()
	h.log = new(lines)
	a = h.start(Options{NoScripts: true})
	if len(a.sources) != 0 || strings.Count(h.log.String(), "scripts are off") != 4 {
		t.Errorf("%d sources without scripts: %s", len(a.sources), h.log)
	}
}

// The root of names is that of -r, and its directory.
func TestRoot(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	t.Setenv("PCP_PMDAS_DIR", dir)
	h.dir = filepath.Join(dir, "other", "config.d")
	h.source("a", "x 1\n")
	a := newAgent(t, Options{Root: "other"})
	Prepare(t.Context(), a)
	names, err := a.Traverse(t.Context(), agents.Origin{}, "other")
	if got := strings.Join(names, " "); err != nil || !strings.Contains(got, "other.a.x") || !strings.Contains(got, "other.control.calls") {
		t.Errorf("names %s, %v", got, err)
	}
}

// The long text of a metric is what follows the first line of HELP, or that line if it is all there is.
func TestText(t *testing.T) {
	h := newHost(t)
	h.source("a", "# HELP x one\nx 1\n# HELP y one\\nmore\\nyet more\ny 1\n")
	a := h.start(Options{})
	for _, tt := range []struct {
		id            pdu.PMID
		oneLine, text string
	}{
		{pdu.NewPMID(Domain, 1, 0), "one", "one"},
		{pdu.NewPMID(Domain, 1, 1), "one", "more\nyet more"},
		{pdu.NewPMID(Domain, 0, controls[0].item), controls[0].oneLine, controls[0].oneLine},
	} {
		for oneLine, want := range map[bool]string{true: tt.oneLine, false: tt.text} {
			if got, err := a.Text(t.Context(), agents.Origin{}, tt.id, oneLine); err != nil || got != want {
				t.Errorf("%v, one line %v: %q, %v; want %q", tt.id, oneLine, got, err, want)
			}
		}
	}
}

// Labels are JSON, whatever is in them, and passwords are not for clients.
func TestLabels(t *testing.T) {
	h := newHost(t)
	h.source("a", "x{q=\"\\\"<\\n\",o=\"opt\",_x=\"y\"} 1\n", "FILTER: OPTIONAL LABEL o")
	h.file("b.url", "http://user:secret@example.com:1/x", 0o644)
	a := h.start(Options{})
	text := func(kind pdu.LabelKind, ident uint32) string {
		t.Helper()
		sets, err := a.Labels(t.Context(), agents.Origin{}, kind, ident)
		if err != nil {
			t.Fatal(err)
		}
		s := ""
		for _, set := range sets {
			s += fmt.Sprintf("%d %s", set.Inst, set.JSON)
			for _, l := range set.Labels {
				if pdu.LabelKind(l.Flags)&pdu.LabelOptional != 0 {
					s += " " + set.Name(l)
				}
			}
		}
		return s
	}
	for _, tt := range []struct {
		kind  pdu.LabelKind
		ident uint32
		want  string
	}{
		{pdu.LabelDomain, Domain, `-1 {"agent":"openmetrics"}`},
		{pdu.LabelItem, uint32(pdu.NewPMID(Domain, 1, 0)), `-1 {"_x":"y","o":"opt","q":"\"<\n"} o`},
		{pdu.LabelInDom, uint32(pdu.NewInDom(Domain, instSerial(1, 0))), `-1 {"source":"a"}`},
		{pdu.LabelInstances, uint32(pdu.NewInDom(Domain, instSerial(1, 0))), `0 {"_x":"y","instname":"0 _x:y q:\"<\n","q":"\"<\n"} instname`},
		{pdu.LabelCluster, uint32(pdu.NewPMID(Domain, 2, 0)), `-1 {"hostname":"example.com:1","source":"b","url":"http://user:xxxxx@example.com:1/x"}`},
		{pdu.LabelCluster, uint32(pdu.NewPMID(Domain, 9, 0)), ""},
		{pdu.LabelInDom, uint32(pdu.NewInDom(Domain, 0)), ""},
	} {
		if got := text(tt.kind, tt.ident); got != tt.want {
			t.Errorf("%v %d:\n got %s\nwant %s", tt.kind, tt.ident, got, tt.want)
		}
	}
}

// At the start, the agent does not wait for a slow source longer than later. That source has names when
// it has replied.
func TestSlowStart(t *testing.T) {
	h := newHost(t)
	release := make(chan struct{})
	h.source("good", "x 1\n")
	h.handle("slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			fmt.Fprint(w, "x 2\n")
		case <-r.Context().Done():
		}
	})
	a := h.open(Options{Timeout: short})
	a.scan()
	a.read(t.Context(), a.sources, time.Hour) // as Prepare does
	testutil.Eventually(t, "the good one has a value", func() bool { return values(t, a, "good") == "good.x 1" })
	if got := status(t, a, "slow"); got != "unknown" {
		t.Errorf("status %s", got)
	}
	close(release)
	testutil.Eventually(t, "the slow one has a value", func() bool { return values(t, a, "slow") == "slow.x 2" })
}
