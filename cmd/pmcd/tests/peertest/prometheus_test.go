package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// startExporter starts a pmcd-prometheus for a host and returns its URL. It runs as d's
// clients do.
func startExporter(t *testing.T, d *peer.Daemon, host string, args ...string) string {
	t.Helper()
	path, err := peer.Program("pmcd-prometheus", "./cmd/pmcd/pmcd-prometheus")
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	d.Background(t, client(append([]string{path, "-h", host, "--listen", address}, args...)...), func() error {
		_, err := httpGet(t.Context(), "http://"+address+"/healthz")
		return err
	})
	return "http://" + address
}

// httpGet returns the body of a reply with the status 200.
func httpGet(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return string(text), err
}

func mustGet(t *testing.T, url string) string {
	t.Helper()
	text, err := httpGet(t.Context(), url)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return text
}

// A scrape is what a text for Prometheus says.
type scrape struct {
	types  map[string]string  // of names
	values map[string]float64 // of series
}

var (
	sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)$`)
	labelText  = regexp.MustCompile(`([\w.]+)="((?:[^"\\]|\\.)*)"`)
	hexEscape  = regexp.MustCompile(`\\x[0-9a-f]{2}`)
)

// parseScrape reads what pmproxy or pmcd-prometheus has sent. It takes what Prometheus does
// not: label names with ".", and bytes as \xNN. Labels for which omit is true are left out.
func parseScrape(text string, omit func(name, label string) bool) (scrape, error) {
	s := scrape{make(map[string]string), make(map[string]float64)}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, typ, _ := strings.Cut(rest, " ")
			s.types[name] = typ
		}
		if line == "" || line[0] == '#' {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return s, fmt.Errorf("no sample: %q", line)
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
		var labels []string
		for _, l := range labelText.FindAllStringSubmatch(m[2], -1) {
			name := strings.ReplaceAll(l[1], ".", "_")
			if omit == nil || !omit(m[1], name) {
				value := hexEscape.ReplaceAllStringFunc(l[2], func(x string) string {
					b, _ := strconv.ParseUint(x[2:], 16, 8)
					return string([]byte{byte(b)})
				})
				labels = append(labels, name+`="`+value+`"`)
			}
		}
		slices.Sort(labels)
		s.values[m[1]+"{"+strings.Join(labels, ",")+"}"] = value
	}
	return s, nil
}

// unsteady are series that differ from one client or fetch to the next, or whose values change
// and change back.
var unsteady = regexp.MustCompile(`^sample_(percontext|scramble|wrap)_`)

// secret is a name of PCP 6.3.8 that is not among those of its metric. pmproxy has its series
// with the other names only.
const secret = "sample_secret_bin"

// steady are series whose values are compared, if they are not unsteady. The host changes the
// values of others.
var steady = regexp.MustCompile(`^(sample|simple|hinv)_`)

// compareScrapes returns how ours differs from two scrapes of pmproxy, one before and one
// after it. Values that pmproxy sees change may be any.
func compareScrapes(before, ours, after scrape) (diffs []string) {
	for _, name := range slices.Sorted(maps.Keys(before.values)) {
		x, ok := ours.values[name]
		y, still := after.values[name]
		switch was := before.values[name]; {
		case !still || unsteady.MatchString(name): // the instance has gone
		case !ok:
			diffs = append(diffs, "only of pmproxy: "+name)
		case steady.MatchString(name) && was == y && !near(x, was):
			diffs = append(diffs, fmt.Sprintf("%s is %v, not %v", name, x, was))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours.values)) {
		_, a := before.values[name]
		_, b := after.values[name]
		if !a && !b && !unsteady.MatchString(name) && !strings.HasPrefix(name, secret+"{") {
			diffs = append(diffs, "only of pmcd-prometheus: "+name)
		}
	}
	for name, typ := range ours.types {
		if t := after.types[name]; t != typ && (t != "" || before.types[name] != "") {
			diffs = append(diffs, fmt.Sprintf("%s is a %s, not a %s", name, typ, t))
		}
	}
	return diffs
}

// near reports whether numbers have 15 digits in common: pmproxy writes 16.
func near(a, b float64) bool {
	return a == b || math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-15*math.Abs(a)
}

// scraped are the parts of the name space that are compared. Processes come and go.
const scraped = "sample,simple,kernel,hinv,disk,mem,network,filesys,swap,pmcd"

// TestPrometheus compares pmcd-prometheus with pmproxy, series by series.
func TestPrometheus(t *testing.T) {
	p := servers(t)
	port, _ := startProxy(t, p.Ours)
	for which, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		missing := labelsMissing(t, d)
		for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
			t.Run(which+" "+tr.String(), func(t *testing.T) {
				proxy := fmt.Sprintf("http://127.0.0.1:%d/metrics?names=%s&hostspec=%s", port, scraped, url.QueryEscape(d.Host(tr)))
				exporter := startExporter(t, d, d.Host(tr), strings.Split(scraped, ",")...) + "/metrics"
				sameSeries(t, func() string { return mustGet(t, proxy) }, func() string { return mustGet(t, exporter) }, missing)
			})
		}
	}
}

// TestPrometheusTrixie compares pmcd-prometheus with pmproxy of PCP 6.3.8.
func TestPrometheusTrixie(t *testing.T) {
	d := servers(t).Ours
	names := strings.ReplaceAll(scraped, "simple,", "")
	for _, target := range machineTargets(t) {
		t.Run(target.name, func(t *testing.T) {
			proxy := startMachineProxy(t, target.machine)
			exporter := startExporter(t, d, target.host, strings.Split(names, ",")...) + "/metrics"
			sameSeries(t, func() string { return proxy("/metrics?hostspec=unix:&names=" + names) }, func() string { return mustGet(t, exporter) },
				func(string, string) bool { return false })
		})
	}
}

// sameSeries compares two exporters of the same pmcd. missing says which labels the first one
// leaves out.
func sameSeries(t *testing.T, proxy, exporter func() string, missing func(name, label string) bool) {
	t.Helper()
	isUser := func(_, label string) bool { return label == "userid" || label == "groupid" }
	var diffs []string
	var n int
	// Instances come and go, and a value can change and change back.
	if !peer.Until(testutil.Hangs, func() bool {
		texts := [3]string{proxy(), exporter(), proxy()}
		var scrapes [3]scrape
		for i, text := range texts {
			omit := isUser
			if i == 1 {
				omit = missing
			}
			s, err := parseScrape(text, omit)
			if err != nil {
				t.Fatal(err)
			}
			scrapes[i] = s
		}
		n = len(scrapes[1].values)
		diffs = compareScrapes(scrapes[0], scrapes[1], scrapes[2])
		return len(diffs) == 0
	}) {
		t.Errorf("%d differences:\n%s", len(diffs), strings.Join(diffs[:min(len(diffs), 20)], "\n"))
	}
	if n < 1000 {
		t.Errorf("only %d series", n)
	}
}

// labelsMissing returns which labels pmproxy 6.0.3 leaves out: those of domains and of
// clusters. Later versions have them.
func labelsMissing(t *testing.T, d *peer.Daemon) func(name, label string) bool {
	t.Helper()
	c := goClient(t, d.Host(peer.TCP4), pmapi.Options{})
	missing := make(map[string]bool)
	for top := range strings.SplitSeq(scraped, ",") {
		for name, err := range c.Traverse(t.Context(), top) {
			if err != nil {
				t.Fatal(err)
			}
			ids, err := c.Lookup(t.Context(), name)
			if err != nil {
				continue // its agent is not there
			}
			other := make(map[string]bool) // names of the labels of other levels
			for kind, ident := range map[pmapi.LabelKind]uint32{
				pmapi.LabelDomain: uint32(ids[0].Domain()), pmapi.LabelCluster: uint32(ids[0]), pmapi.LabelItem: uint32(ids[0]),
			} {
				sets, err := c.LabelsAt(t.Context(), kind, ident)
				if err != nil {
					continue
				}
				for _, set := range sets {
					for _, l := range set.Labels {
						label := strings.ReplaceAll(l.Name, ".", "_")
						if kind == pmapi.LabelItem {
							other[label] = true
						} else if !other[label] {
							missing[strings.ReplaceAll(name, ".", "_")+" "+label] = true
						}
					}
				}
			}
			for label := range other {
				delete(missing, strings.ReplaceAll(name, ".", "_")+" "+label)
			}
		}
	}
	return func(name, label string) bool { return missing[name+" "+label] }
}

// lint are the remarks of promtool about names of PCP.
var lint = regexp.MustCompile(`^\S+ (counter metrics should have "_total" suffix|` +
	`non-counter metrics should not have "_total" suffix|metric names should be written in 'snake_case' not 'camelCase')$`)

// promtool, and a Prometheus server, can read what pmcd-prometheus sends.
func TestPrometheusServer(t *testing.T) {
	for _, name := range []string{"prometheus", "promtool"} {
		testutil.NeedProgram(t, name)
	}
	d := servers(t).Ours
	text := startExporter(t, d, d.Host(peer.Unix))
	all := startExporter(t, d, d.Host(peer.TCP4), strings.Split(scraped, ",")...)
	open := startExporter(t, d, d.Host(peer.Unix), "--openmetrics")
	for _, url := range []string{text, all, open} {
		promtool := client("promtool", "check", "metrics")
		promtool.Stdin = mustGet(t, url+"/metrics")
		o, err := d.Run(t.Context(), peer.TCP4, promtool)
		if err != nil || !slices.Contains([]int{0, 3}, o.Code) { // 3: only remarks
			t.Errorf("%s: %v, %v", url, err, o)
		}
		for line := range strings.Lines(o.Stdout + o.Stderr) {
			if url != all && !lint.MatchString(strings.TrimSpace(line)) { // all has very odd names
				t.Errorf("%s: %s", url, line)
			}
		}
	}

	server := startPrometheus(t, d, map[string]string{"text": text, "all": all, "open": open})
	for _, job := range []string{"text", "all", "open"} {
		s, err := parseScrape(mustGet(t, map[string]string{"text": text, "all": all, "open": open}[job]+"/metrics"), nil)
		if err != nil {
			t.Fatal(err)
		}
		// Metrics of instances that have come since are not in s.
		got := server.query(t, `scrape_samples_scraped{job="`+job+`"}`)
		if n := float64(len(s.values)); got < 0.9*n || got > 1.1*n {
			t.Errorf("%s: Prometheus has %v samples, %v were sent", job, got, n)
		}
		if kept := server.query(t, `count({job="`+job+`",__name__!~"up|scrape_.*"})`); kept < got || got == 0 {
			t.Errorf("%s: %v of %v samples were kept", job, kept, got)
		}
	}
	ncpu := server.query(t, `hinv_ncpu{job="text"}`)
	if o, err := d.Run(t.Context(), peer.TCP4, words("pmprobe -h {host} -v hinv.ncpu")); err != nil ||
		o.Stdout != fmt.Sprintf("hinv.ncpu 1 %v\n", ncpu) {
		t.Errorf("hinv.ncpu is %v, %v\n%s", ncpu, err, o)
	}
	for query, want := range map[string]float64{
		`count(kernel_all_load{job="text",instname="5 minute"})`:                                  1,
		`count(kernel_all_cpu_user{job="text"})`:                                                  1,
		`count(kernel_all_cpu_user{job="open"}) or vector(0)`:                                     0, // OpenMetrics has other series
		`count(kernel_all_cpu_user_total{job="open"})`:                                            1,
		`count(sample_bin{job="all",deep_a="1",deep_b="two"})`:                                    9,
		`count(rate(kernel_all_pswitch{job="text"}[1m]) >= 0)`:                                    1,
		`count({__name__="sample_string_hullo"}) or vector(0)`:                                    0,
		`count({job="all",userid!=""}) + count({job="text",userid!=""}) or vector(0)`:             0,
		`count(count by (instname, job) (disk_dev_read{job="text"})) > bool 0`:                    1,
		`count(count by (__name__) ({job="all",__name__=~"sample_.*"})) > bool 50`:                1,
		`count(kernel_all_load{job="open",instid="1"} == kernel_all_load{job="open",instid="1"})`: 1,
	} {
		if got := server.query(t, query); got != want {
			t.Errorf("%s is %v, not %v", query, got, want)
		}
	}
	for name, want := range map[string]string{"kernel_all_cpu_user": "counter", "kernel_all_load": "gauge"} {
		if text := mustGet(t, server.url+"/api/v1/metadata?metric="+name); !strings.Contains(text, `"type":"`+want+`"`) {
			t.Errorf("metadata of %s: %s", name, text)
		}
	}
}

// A promServer is a Prometheus server.
type promServer struct{ url string }

// startPrometheus starts a Prometheus server that scrapes URLs, by the names of jobs, and has the
// rules of files. It waits until it has scraped twice.
func startPrometheus(t *testing.T, d *peer.Daemon, jobs map[string]string, rules ...string) promServer {
	t.Helper()
	dir := t.TempDir()
	conf := "global: {scrape_interval: 5s, scrape_timeout: 5s}\nscrape_configs:\n"
	for name, target := range jobs {
		conf += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: ['%s']}]}\n", name, strings.TrimPrefix(target, "http://"))
	}
	if len(rules) > 0 {
		conf += "rule_files: ['" + strings.Join(rules, "', '") + "']\n"
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	s := promServer{"http://" + address}
	d.Background(t, client("prometheus", "--config.file="+file, "--storage.tsdb.path="+dir+"/data", "--web.listen-address="+address), func() error {
		_, err := httpGet(t.Context(), s.url+"/-/ready")
		return err
	})
	if !peer.Until(testutil.Hangs, func() bool {
		return s.query(t, `count(sum_over_time(up[5m]) >= 2) or vector(0)`) == float64(len(jobs))
	}) {
		t.Fatalf("not all are scraped: %s", mustGet(t, s.url+"/api/v1/targets"))
	}
	return s
}

// query returns the only value of an expression.
func (s promServer) query(t *testing.T, expr string) float64 {
	t.Helper()
	text := mustGet(t, s.url+"/api/v1/query?query="+url.QueryEscape(expr))
	var reply struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || len(reply.Data.Result) != 1 {
		t.Fatalf("%s: %v, %s", expr, err, text)
	}
	value, ok := reply.Data.Result[0].Value[1].(string)
	x, err := strconv.ParseFloat(value, 64)
	if !ok || err != nil {
		t.Fatalf("%s: %s", expr, text)
	}
	return x
}

// /readyz waits until no agent starts any more, and /metrics has the values of the others
// meanwhile.
func TestPrometheusReady(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := peer.StandardAgents()
	if err != nil {
		t.Fatal(err)
	}
	// The agent is in its first start until its script can read something, or for a minute.
	const script = "mkfifo $1/gate && read x <$1/gate\n"
	agents = append(agents, "slow 254 pipe binary /bin/sh {dir}/slow.sh {dir}")
	d := peer.StartT(t, path, peer.Config{Agents: agents, Files: map[string]string{"slow.sh": script}})
	exporter := startExporter(t, d, d.Host(peer.Unix), "kernel.all", "pmcd.agent.status")
	if text, err := httpGet(t.Context(), exporter+"/readyz"); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "slow") {
		t.Errorf("/readyz: %q, %v", text, err)
	}
	if !peer.Until(testutil.Hangs, func() bool { // agents of PCP start, too
		text, err := httpGet(t.Context(), exporter+"/metrics")
		return err == nil && strings.Contains(text, "\nkernel_all_pswitch{") && strings.Contains(text, `instname="slow"`)
	}) {
		t.Errorf("/metrics: %s", mustGet(t, exporter+"/metrics"))
	}
	if err := os.WriteFile(filepath.Join(d.Dir, "gate"), []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !peer.Until(testutil.Hangs, func() bool { _, err = httpGet(t.Context(), exporter+"/readyz"); return err == nil }) {
		t.Errorf("/readyz: %v", err)
	}
}
