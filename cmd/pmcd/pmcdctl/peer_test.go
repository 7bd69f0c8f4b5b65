package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// steady are subtrees whose values do not change from fetch to fetch, of all types.
var steady = []string{
	"sample.bin", "sample.long", "sample.ulong", "sample.longlong", "sample.ulonglong", "sample.float.hundred", "sample.double.bin",
	"sample.string", "sample.aggregate", "sample.bad.nosupport", "sample.bad.novalues", "sample.bad.fetch", "sample.wrong", "sample.hordes.one", "sample.part_bin",
	"sample.write_me", "sample.darkness", "sample.noinst", "sample.null", "sample.datasize",
	"pmcd.agent.type", "pmcd.version", "hinv.ncpu", "hinv.physmem", "hinv.pagesize",
}

// A server is a pmcd with PCP's clients.
type server interface {
	pcp(t *testing.T, args ...string) peer.Output // runs one of them, for this pmcd
	host() string                                 // for pmcdctl
}

// installed is a pmcd with the clients of this host.
type installed struct{ *peer.Daemon }

func (d installed) pcp(t *testing.T, args ...string) peer.Output {
	t.Helper()
	o, err := d.Run(t.Context(), peer.Unix, peer.Client{Args: slices.Insert(args, 1, "-h", "{host}")})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (d installed) host() string { return d.Host(peer.Unix) }

// booted is a pmcd with the clients of its machine.
type booted struct{ *peer.Machine }

func (m booted) pcp(t *testing.T, args ...string) peer.Output {
	t.Helper()
	o, err := m.Run(t.Context(), "/", peer.Client{Args: slices.Insert(args, 1, "-h", "unix:")})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (m booted) host() string { return "unix:" + m.Path("/run/pcp/pmcd.socket") }

// TestPeerValues compares values with what pminfo and pmval print of them, against PCP's pmcd
// and ours.
func TestPeerValues(t *testing.T) {
	peer.Require(t)
	p, err := peer.StartPair(peer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		t.Cleanup(func() {
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	comparePeers(t, installed{p.C}, installed{p.Ours})
}

// TestPeerValuesTrixie is TestPeerValues with PCP 6.3.8.
func TestPeerValuesTrixie(t *testing.T) {
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	var machines []server
	for _, path := range []string{"", path} {
		m := peer.BootRelease(t, peer.Trixie, path)
		m.AddSample(t)
		m.Start(t)
		machines = append(machines, booted{m})
	}
	comparePeers(t, machines[0], machines[1])
}

// comparePeers compares pmcdctl with PCP's clients, against PCP's pmcd and ours.
func comparePeers(t *testing.T, c, own server) {
	noConf(t)
	for name, d := range map[string]server{"C": c, "ours": own} {
		t.Run(name, func(t *testing.T) {
			t.Run("list", func(t *testing.T) { sameNames(t, d) })
			t.Run("get", func(t *testing.T) { sameValues(t, d) })
			t.Run("describe", func(t *testing.T) { sameDescriptions(t, d) })
			t.Run("watch", func(t *testing.T) { sameRates(t, d) })
			t.Run("set", func(t *testing.T) { sameStores(t, d) })
		})
	}
	t.Run("compare", func(t *testing.T) { comparePair(t, c.host(), own.host()) })
}

// ours runs a command of pmcdctl.
func ours(t *testing.T, d server, args ...string) string {
	t.Helper()
	code, stdout, stderr := runHere(slices.Insert(args, 1, "-h", d.host())...)
	if code > exitProblems {
		t.Fatalf("%v: exit code %d\n%s", args, code, stderr)
	}
	return stdout
}

// libpcpNames are metrics that libpcp adds to the name space.
var libpcpNames = regexp.MustCompile(`(?m)^event\.(flags|missed)\n`)

func sameNames(t *testing.T, d server) {
	want := libpcpNames.ReplaceAllString(d.pcp(t, "pminfo").Stdout, "")
	if got := ours(t, d, "list"); got != want || len(got) < 10000 {
		t.Errorf("%d bytes of names, not %d", len(got), len(want))
	}
	for _, prefix := range []string{"sample.bin", "sample.dynamic", "hinv"} {
		want := libpcpNames.ReplaceAllString(d.pcp(t, "pminfo", prefix).Stdout, "")
		if got := ours(t, d, "list", prefix); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", prefix, got, want)
		}
	}
}

var (
	infoInst  = regexp.MustCompile(`^    (?:inst \[-?\d+ or "(.*)"\] )?value (.*)$`)
	infoError = regexp.MustCompile(`^(Error: .*|No value\(s\) available!)$`)
	// A guess of PCP's tools at an aggregate: floating point numbers before its text.
	guess = regexp.MustCompile(`^-?[0-9.]\S* (-?[0-9.]\S* )?("|\[)`)
)

// infoLines returns the output of pminfo -f as lines NAME[INSTANCE] VALUE.
func infoLines(text string) (lines []string) {
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if m := infoInst.FindStringSubmatch(line); m != nil {
			label := name
			if m[1] != "" {
				label += "[" + m[1] + "]"
			}
			value := guess.ReplaceAllString(m[2], "$2")
			lines = append(lines, label+" "+value)
		} else if infoError.MatchString(line) {
			lines = append(lines, name+" none")
		} else if line != "" && line[0] != ' ' {
			name = line
		}
	}
	return lines
}

// ownLine is a line of pmcdctl get.
var ownLine = regexp.MustCompile(`^(\S+?(?:\[.*?\])?)  +(.*)$`)

// getLines returns the output of pmcdctl get in the same form. units are those of each metric.
func getLines(t *testing.T, text string, units map[string]string) (lines []string) {
	for line := range strings.Lines(text) {
		m := ownLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Errorf("line %q", line)
			continue
		}
		name, _, _ := strings.Cut(m[1], "[")
		value := m[2]
		if strings.HasPrefix(value, "no value") {
			lines = append(lines, name+" none")
			continue
		}
		if u := units[name]; u != "none" {
			var ok bool
			if value, ok = strings.CutSuffix(value, " "+u); !ok {
				t.Errorf("%s: %q is not in %s", name, m[2], u)
			}
		}
		lines = append(lines, m[1]+" "+value)
	}
	return lines
}

// existing returns those of names that the daemon has.
func existing(t *testing.T, d server, names []string) (found []string) {
	for _, name := range names {
		if code, _, _ := runHere("list", "-h", d.host(), name); code == exitOK {
			found = append(found, name)
		}
	}
	if len(found) < len(names)*2/3 {
		t.Fatalf("only %q exist", found)
	}
	return found
}

func sameValues(t *testing.T, d server) {
	names := existing(t, d, steady)
	units := make(map[string]string)
	for line := range strings.Lines(ours(t, d, "list", "-l", "sample") + ours(t, d, "list", "-l", "hinv") + ours(t, d, "list", "-l", "pmcd")) {
		if f := regexp.MustCompile(` {2,}`).Split(line, 5); len(f) >= 4 {
			units[f[0]] = strings.TrimSpace(f[3])
		}
	}
	var want, got []string
	for range 3 { // a value may change between two fetches
		want = infoLines(d.pcp(t, append([]string{"pminfo", "-f"}, names...)...).Stdout)
		got = getLines(t, ours(t, d, append([]string{"get"}, names...)...), units)
		if slices.Equal(got, want) {
			break
		}
	}
	if len(want) < 100 {
		t.Errorf("pminfo has only %d values", len(want))
	}
	n := 0
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w && rounded(g) != rounded(w) && n < 20 {
			n++
			t.Errorf("got %q, pminfo has %q", g, w)
		}
	}
}

// rounded returns a line of a value whose fraction, if it has one, has 7 digits: pminfo prints a
// float with 8, of which the last may say nothing.
func rounded(line string) string {
	i := strings.LastIndexByte(line, ' ')
	f, err := strconv.ParseFloat(line[i+1:], 64)
	if err != nil || !strings.ContainsAny(line[i+1:], ".e") {
		return line
	}
	return line[:i+1] + strconv.FormatFloat(f, 'g', 7, 64)
}

func sameDescriptions(t *testing.T, d server) {
	for _, name := range []string{"sample.bin", "hinv.physmem", "sample.float.hundred", "pmcd.version", "sample.kbytes.counter", "sample.rapid"} {
		if len(existing(t, d, []string{name})) == 0 {
			continue
		}
		info := d.pcp(t, "pminfo", "-dt", name).Stdout
		text := ours(t, d, "describe", name)
		line := func(pattern, of string) string {
			m := regexp.MustCompile(pattern).FindStringSubmatch(of)
			if m == nil {
				return ""
			}
			return m[1]
		}
		for _, what := range [][2]string{
			{`Semantics: (\w+)`, `semantics +(\w+)`},
			{`Units: (.*)`, `units +(.*)`},
			{`InDom: (\d\S*) `, `of domain ([0-9.]+)`},
			{`\[(.*)\]`, `(?m)^    (.*)$`},
		} {
			if want, got := line(what[0], info), line(what[1], text); got != want {
				t.Errorf("%s: %q, pminfo has %q\n%s%s", name, got, want, info, text)
			}
		}
	}
}

// sameRates watches a counter of the milliseconds since the agent was started, as pmval does:
// its rate is 1, or 100%. On a busy machine the time between the agent's clock and that of pmcd
// makes it more or less for a sample, but not ten times.
func sameRates(t *testing.T, d server) {
	const metric = "sample.milliseconds"
	between := func(text string, low, high float64) {
		if f, err := strconv.ParseFloat(text, 64); err != nil || f < low || f > high {
			t.Errorf("rate %q", text)
		}
	}
	o := d.pcp(t, "pmval", "-t", "0.2", "-s", "2", metric)
	m := regexp.MustCompile(`(?m)^ +(\d+\.\d+)\s*$`).FindAllStringSubmatch(o.Stdout, -1)
	if len(m) != 2 {
		t.Fatalf("pmval: %s", o)
	}
	for _, m := range m {
		between(m[1], 0.1, 10)
	}
	got := ours(t, d, "watch", "-t", "0.2", "-s", "2", metric)
	if m = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `+metric+`  ([0-9.]+)%$`).FindAllStringSubmatch(got, -1); len(m) != 2 {
		t.Fatalf("got %s", got)
	}
	for _, m := range m {
		between(m[1], 10, 1000)
	}
}

// sameStores stores by turns with pmstore.
func sameStores(t *testing.T, d server) {
	for _, tt := range []struct{ metric, pcp, value string }{
		{"sample.write_me", "", "42"}, {"sample.long.write_me", "", "-5"}, {"sample.float.write_me", "", "2.5"},
		{"sample.string.write_me", "", "a b"}, {"sample.ulonglong.write_me", "", "0x10"}, {"simple.color", "red", "7"},
	} {
		if len(existing(t, d, []string{tt.metric})) == 0 {
			continue
		}
		stored, set := []string{"pmstore"}, []string{"set", "--", tt.metric, tt.value}
		if tt.pcp != "" {
			stored = append(stored, "-i", tt.pcp)
			set[2] += "[" + tt.pcp + "]"
		}
		byPCP := d.pcp(t, append(stored, tt.metric, tt.value)...)
		if !strings.Contains(byPCP.Stdout, "new value=") {
			t.Errorf("%s: %s", tt.metric, byPCP)
		}
		_, now, _ := strings.Cut(byPCP.Stdout, "new value=")
		now = strings.TrimSpace(now)
		got := ours(t, d, set...)
		if tt.metric == "simple.color" { // grows with each fetch
			if got != "simple.color[red]: 8 -> 8\n" {
				t.Errorf("got %s", got)
			}
			continue
		}
		if want := fmt.Sprintf("%s: %s -> %[2]s\n", tt.metric, now); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// comparePair compares PCP's pmcd with ours: names and descriptors are the same, and so are
// values but for those of the daemons themselves.
func comparePair(t *testing.T, c, own string) {
	code, stdout, stderr := runHere("compare", "-h", c, "-h", own, "sample.bin", "sample.long", "sample.string", "hinv", "kernel.uname")
	if code != exitOK || !strings.Contains(stdout, "no differences") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	code, stdout, stderr = runHere("compare", "-h", c, "-h", own, "pmcd")
	if code != exitOK || !strings.Contains(stdout, "    docs/compatibility.md: `pmcd.version` is 7.2.1: pmcd.version\n") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

// Watch goes on if the connection is lost, and ends with success if it is interrupted.
func TestWatchLosesPmcd(t *testing.T) {
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	d, err := peer.Start(path, peer.Config{Bare: true, Agents: []string{"simple 253 dso simple_init /none"}, PMNS: "root { x }\nx { now 253:0:1 }\n"})
	if err != nil {
		t.Fatal(err)
	}
	noConf(t)
	cmd := exec.Command(pmcdctl, "watch", "-t", "20ms", "-h", d.Host(peer.Unix), "x.now[red]")
	var stdout, stderr buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if !peer.Until(testutil.Hangs, func() bool { return strings.Count(stdout.String(), "\n") > 2 }) {
		t.Errorf("no values\n%s\n%s", &stdout, &stderr)
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	if !peer.Until(testutil.Hangs, func() bool { return strings.Count(stderr.String(), "\n") > 0 }) {
		t.Error("no error")
	}
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	if !strings.HasPrefix(stderr.String(), "pmcdctl: ") {
		t.Errorf("%s", &stderr)
	}
}

// A buffer can be read while a process writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
