package peertest

import (
	"compress/zlib"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

const pythonOpenMetrics = "/var/lib/pcp/pmdas/openmetrics/pmdaopenmetrics.python"

// qaPages are those of PCP's own tests.
const qaPages = "/var/lib/pcp/testsuite/openmetrics/samples/*.txt"

var charsets = map[string]struct {
	name     string
	encoding encoding.Encoding
}{
	"/latin1":      {"iso-8859-1", charmap.ISO8859_1},
	"/windows1252": {"windows-1252", charmap.Windows1252},
	"/utf16":       {"UTF-16", unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)},
	"/utf16be":     {"utf-16be", unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)},
	"/unknown":     {"klingon", nil},
}

// openMetricsServer serves the pages of the agent's tests. Of a page with a second version, that is
// served after *later was set.
func openMetricsServer(t *testing.T, later *atomic.Bool) *httptest.Server {
	pages := filepath.Join(peer.Must(peer.ModuleRoot())(t), "agents", "builtin", "openmetrics", "testdata", "pages")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/charset", "/latin1", "/windows1252", "/utf16", "/utf16be", "/unknown":
			const page = "name{a=\"Gr\u00fc\u00dfe\"} 1\n"
			c, ok := charsets[r.URL.Path]
			if !ok {
				c.name = "utf-8"
			}
			w.Header().Set("Content-Type", "text/plain; charset="+c.name)
			if c.encoding == nil {
				fmt.Fprint(w, page)
				return
			}
			fmt.Fprint(w, peer.Must(c.encoding.NewEncoder().String(page))(t))
		case "/returns":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "a 1\rb 2\r\n# HELP c text\rc{x=\"1\"} 3\r")
		case "/deflate":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Encoding", "deflate")
			z := zlib.NewWriter(w)
			fmt.Fprint(z, "a 1\n")
			z.Close()
		case "/header":
			fmt.Fprintf(w, "name{a=%q,b=%q} 1\n", r.Header.Get("X-A"), r.Header.Get("Authorization"))
		case "/changes":
			fmt.Fprint(w, "stays 1\ninst{a=\"1\"} 1\ninst{a=\"2\"} 2\n")
			if later.Load() {
				fmt.Fprint(w, "inst{a=\"3\"} 3\nnew 1\nanother{b=\"x\"} 5\n")
			} else {
				fmt.Fprint(w, "goes 1\ninst{a=\"gone\"} 3\n")
			}
		case "/redirect":
			http.Redirect(w, r, "/etcd.txt", http.StatusFound)
		case "/error":
			http.Error(w, "x 1\n", http.StatusInternalServerError)
		case "/missing":
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			http.ServeFile(w, r, filepath.Join(pages, filepath.Base(r.URL.Path)))
		}
	}))
	t.Cleanup(srv.Close)
	files := peer.Must(filepath.Glob(pages + "/*.txt"))(t)
	if len(files) < 10 {
		t.Fatalf("%d pages in %s", len(files), pages)
	}
	return srv
}

// openMetricsConf makes a directory of sources.
func openMetricsConf(t *testing.T, url string) string {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	pages := filepath.Join(peer.Must(peer.ModuleRoot())(t), "agents", "builtin", "openmetrics", "testdata", "pages")
	for _, path := range peer.Must(filepath.Glob(pages + "/*.txt"))(t) {
		name := filepath.Base(path)
		write(strings.TrimSuffix(name, ".txt")+".url", url+"/"+name+"\n", 0o644)
	}
	for _, path := range peer.Must(filepath.Glob(qaPages))(t) {
		// With the large ones, PCP's agent takes too long to start. Labels with quotes are not valid
		// JSON in it.
		if text := string(peer.Must(os.ReadFile(path))(t)); len(text) > 25_000 || strings.Contains(text, `\"`) {
			continue
		}
		name := strings.NewReplacer("-", "_", ".txt", "").Replace(filepath.Base(path))
		write("qa/"+name+".url", "file://"+path, 0o644)
	}
	for _, name := range []string{"latin1", "charset", "windows1252", "utf16", "utf16be", "unknown", "returns", "deflate", "changes", "redirect", "error", "missing"} {
		write("http/"+name+".url", url+"/"+name, 0o644)
	}
	write("file.url", "file://"+pages+"/jmx.txt", 0o644)
	write("nofile.url", "file:///nonexistent", 0o644)
	write("headers.url", url+"/header\n# comment\n\nHEADER: X-A: one  two\nHEADER: Authorization: token a:b\nNONSENSE: x\n", 0o644)
	write("filters.url", url+"/etcd.txt\nFILTER: INCLUDE METRIC .*fsync.*_sum\nFILTER: EXCLUDE METRIC etcd\nFILTER: EXCLUDE LABEL grpc_t\nFILTER: OPTIONAL LABEL grpc_c|grpc_s\nFILTER: EXCLUDE LABEL quantile\n", 0o644)
	write("optional.url", url+"/cadvisor.txt\nFILTER: OPTIONAL LABEL .*\n", 0o644)
	write("metadata.url", url+"/etcd.txt\nMETADATA: grpc_server u64 rpcs counter count\nMETADATA: go_gc.*_count 32 PM_INDOM_NULL discrete count / sec\nMETADATA: go_gc_duration_seconds$ float PM_INDOM_NULL instant millisec\n", 0o644)
	write("scripts/a.sh", "#!/bin/sh\necho '# TYPE loadavg gauge'\necho 'loadavg {interval=\"1-minute\"} 0.12'\necho 'loadavg{interval=\"5-minute\"} 0.27'\necho text >&2\n", 0o755)
	write("scripts/fails.sh", "#!/bin/sh\necho a 1\nexit 3\n", 0o755)
	write("scripts/b.more.py", "#!/bin/sh\necho b 1\n", 0o755)
	write("README", "no source", 0o644)
	write("scripts/common", "no source", 0o644)
	write(".hidden.url", url+"/etcd.txt", 0o644)
	write("1digit.url", url+"/etcd.txt", 0o644)
	write("a-b.url", url+"/etcd.txt", 0o644)
	write("control.url", url+"/etcd.txt", 0o644)
	write("x/y.url", url+"/om.txt", 0o644)
	write("x.y.url", url+"/etcd.txt", 0o644)
	return dir
}

// openMetricsDaemon starts an agent under PCP's pmcd. saved has the saved files for it, if it is not nil.
func openMetricsDaemon(t *testing.T, command, conf string, saved map[string]string) *peer.Daemon {
	t.Helper()
	c := peer.Config{
		Agents: []string{"openmetrics 144 pipe binary notready " + command + " -d 144 -u root -c " + conf},
		PMNS:   "root {\n\topenmetrics 144:*:*\n}\n",
		Bare:   true,
		Files:  make(map[string]string),
	}
	for name, text := range saved {
		c.Files["var/config/pmda/"+name] = text
	}
	d := peer.StartT(t, peer.CPmcd, c)
	waitOpenMetrics(t, d)
	return d
}

// waitOpenMetrics waits until the agent is ready.
func waitOpenMetrics(t *testing.T, d *peer.Daemon) {
	t.Helper()
	testutil.Eventually(t, "the agent is ready", func() bool {
		o, err := d.Run(t.Context(), peer.Unix, words("pminfo -h {host} -f openmetrics.control.calls"))
		return err == nil && o.Code == 0
	})
}

// openMetricsFiles returns the saved files.
func openMetricsFiles(t *testing.T, d *peer.Daemon) map[string]string {
	files := make(map[string]string)
	for _, path := range peer.Must(filepath.Glob(filepath.Join(d.Dir, "var/config/pmda/144.*")))(t) {
		files[filepath.Base(path)] = string(peer.Must(os.ReadFile(path))(t))
	}
	return files
}

func compareFiles(t *testing.T, c, ours map[string]string) {
	t.Helper()
	for name, text := range c {
		if ours[name] != text {
			t.Errorf("%s:\n PCP's %q\n ours %q", name, text, ours[name])
		}
	}
	for name := range ours {
		if _, ok := c[name]; !ok {
			t.Errorf("%s is a file of ours only", name)
		}
	}
}

// sortedMetrics is peer.Metrics for an agent whose names are in the order in which its sources reply.
func sortedMetrics(text string) []peer.Record {
	rs := peer.Metrics(text)
	slices.SortStableFunc(rs, func(a, b peer.Record) int { return strings.Compare(a.Key, b.Key) })
	return rs
}

// openMetricsRules are for metrics of the agent itself.
var openMetricsRules = []peer.Rule{
	{Key: re(`openmetrics\.control\..*_time`), How: peer.Shape, Why: "how long something took"},
	{Key: re(`openmetrics\.control\.status`), How: peer.Presence, Why: "the words of errors"},
	{Key: re(`openmetrics\.control\.calls`), How: peer.Shape, Why: "the Python agent reads sources without metrics for requests about others"},
}

// TestOpenMetrics compares the agent with PCP's, on the same sources: names, PMIDs, descriptors,
// labels, texts, values and saved files. Then each takes over from the other.
func TestOpenMetrics(t *testing.T) {
	peer.Require(t)
	testutil.NeedRoot(t) // 6.0.3's agent cannot become the user that it is
	python := "/usr/bin/python3 " + testutil.NeedPeer(t, pythonOpenMetrics)
	ours := peer.Must(peer.PMDA("openmetrics"))(t)
	var later atomic.Bool
	conf := openMetricsConf(t, openMetricsServer(t, &later).URL)

	pair := func(t *testing.T, saved map[string]string) *peer.Pair {
		return &peer.Pair{C: openMetricsDaemon(t, python, conf, saved), Ours: openMetricsDaemon(t, ours, conf, saved), Agents: true}
	}
	compare := func(t *testing.T, p *peer.Pair) {
		t.Helper()
		cmp := peer.Comparison{Split: sortedMetrics, Rules: openMetricsRules, Status: peer.AnyStatus, Must: "openmetrics.etcd.go_gc_duration_seconds"}
		for _, line := range []string{
			"pminfo -h {host} -m openmetrics",
			"pminfo -h {host} -d openmetrics",
			"pminfo -h {host} -f openmetrics",
			"pminfo -h {host} -l openmetrics",
			"pminfo -h {host} -lf openmetrics",
		} {
			cmp := cmp
			if strings.Contains(line, " -l") {
				cmp.Rules = append(cmp.Rules[:len(cmp.Rules):len(cmp.Rules)], peer.Rule{Key: re(`openmetrics\.quoted\..*`), How: peer.Presence, Why: "labels with quotes are not valid JSON in PCP's agent"})
			}
			t.Run(line, func(t *testing.T) { p.Compare(t, peer.Unix, words(line), cmp) })
		}
		cmp.Must = ""
		for _, line := range []string{
			"pminfo -h {host} -tT openmetrics.help openmetrics.cadvisor.container_fs_limit_bytes",
			"pminfo -h {host} -f openmetrics.nosuch openmetrics.etcd.nosuch openmetrics.error openmetrics.http.error",
			"pminfo -h {host} -f 144.0.0 144.0.7 144.1.1000 144.77.1",
			"pminfo -h {host} -d 144.0.0 144.0.7 144.1.1000 144.77.1",
			"pminfo -h {host} -I 144.0 144.1 144.2 144.3 144.5120 144.4000 144.99999",
			"pmprobe -h {host} -v openmetrics.etcd",
			"pmprobe -h {host} -I openmetrics.cadvisor openmetrics.changes",
			"pmstore -h {host} openmetrics.control.debug 0",
			"pmstore -h {host} -i 1 openmetrics.control.calls 0",
			"pmstore -h {host} openmetrics.edge.h 0",
		} {
			t.Run(line, func(t *testing.T) { p.Compare(t, peer.Unix, words(line), cmp) })
		}
	}

	p := pair(t, nil)
	compare(t, p)
	first := openMetricsFiles(t, p.C)
	compareFiles(t, first, openMetricsFiles(t, p.Ours))
	if len(first) < 20 {
		t.Fatalf("%d saved files", len(first))
	}

	t.Run("a page changes", func(t *testing.T) {
		later.Store(true)
		compare(t, p)
		compareFiles(t, openMetricsFiles(t, p.C), openMetricsFiles(t, p.Ours))
	})
	second := openMetricsFiles(t, p.Ours)
	t.Run("each takes over from the other", func(t *testing.T) {
		// The new order of pages is another, but not that of numbers.
		p := pair(t, second)
		compare(t, p)
		compareFiles(t, second, openMetricsFiles(t, p.C))
		compareFiles(t, second, openMetricsFiles(t, p.Ours))
	})
	t.Run("files of root become those of pcp", func(t *testing.T) {
		pcp := peer.Must(user.Lookup("pcp"))(t)
		d := openMetricsDaemon(t, ours, conf+" -u pcp", second)
		path := filepath.Join(d.Dir, "var/config/pmda/144.0.py")
		st := peer.Must(os.Stat(path))(t).Sys().(*syscall.Stat_t)
		if fmt.Sprint(st.Uid) != pcp.Uid || string(peer.Must(os.ReadFile(path))(t)) != second["144.0.py"] {
			t.Errorf("%s has owner %d, want %s", path, st.Uid, pcp.Uid)
		}
	})
}

// A line for PCP's agent starts ours, with its options, if Python or the agent does not exist.
func TestOpenMetricsWithoutPython(t *testing.T) {
	peer.Require(t)
	dir := t.TempDir() // as installed: pmcd, and beside it pmdas/pmdaopenmetrics
	pmcd := filepath.Join(dir, "pmcd")
	for to, from := range map[string]string{
		pmcd: peer.Must(peer.UnderTest())(t),
		filepath.Join(dir, "pmdas", "pmdaopenmetrics"): peer.Must(peer.PMDA("openmetrics"))(t),
	} {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, peer.Must(os.ReadFile(from))(t), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	conf := t.TempDir()
	if err := os.WriteFile(filepath.Join(conf, "a.url"), []byte("file://"+conf+"/page"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "page"), []byte("x 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	me := peer.Must(user.Current())(t).Username
	for _, line := range []string{"/nonexistent/python3 " + pythonOpenMetrics, "/bin/sh /nonexistent/pmdaopenmetrics.python"} {
		d := peer.StartT(t, pmcd, peer.Config{
			Agents: []string{"openmetrics 144 pipe binary notready " + line + " -d 144 -u " + me + " -c " + conf},
			PMNS:   "root {\n\topenmetrics 144:*:*\n}\n",
		})
		waitOpenMetrics(t, d)
		o, err := d.Run(t.Context(), peer.Unix, words("pminfo -h {host} -f openmetrics.a"))
		if err != nil || !strings.Contains(o.Stdout, "value 1") {
			t.Errorf("%s: %v\n%s", line, err, o)
		}
		missing := strings.Fields(line)[0]
		if missing == "/bin/sh" {
			missing = strings.Fields(line)[1]
		}
		want := dir + "/pmdas/pmdaopenmetrics: " + missing + " does not exist"
		if log := d.Log(); !strings.Contains(log, want) {
			t.Errorf("%s: no %q in the log:\n%s", line, want, log)
		}
		out, err := exec.Command(pmcd, "-v", "-c", filepath.Join(d.Dir, "conf"), "-n", filepath.Join(d.Dir, "pmns")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: no %q from pmcd -v: %v\n%s", line, want, err, out)
		}
	}
}
