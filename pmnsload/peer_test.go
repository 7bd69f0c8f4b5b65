package pmnsload

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// These tests compare results with those of PCP's programs pmcpp and pminfo, below
// $PCP_DIR if that is set. If they are not installed, the tests are skipped or, with
// PMCD_REQUIRE_PEERS=1, fail.

// A peer is a program of PCP.
type peer struct {
	path string
	env  []string
}

func newPeer(t *testing.T, path string) peer {
	t.Helper()
	p := peer{path: path, env: append(os.Environ(), "PCP_DERIVED_CONFIG=", "LC_ALL=C")}
	if dir := os.Getenv("PCP_DIR"); dir != "" {
		p.path = filepath.Join(dir, path)
		libs, err := filepath.Glob(filepath.Join(dir, "usr/lib/*-linux-gnu"))
		if err != nil {
			t.Fatal(err)
		}
		p.env = append(p.env, "PCP_CONF="+filepath.Join(dir, "etc/pcp.conf"), "LD_LIBRARY_PATH="+strings.Join(libs, ":"))
	}
	if _, err := os.Stat(p.path); err != nil {
		testutil.Missing(t, err)
	}
	return p
}

// run returns the output of the peer, and whether its exit status is 0.
func (p peer) run(t *testing.T, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), err == nil
}

// cpp returns the output of pmcpp for a file, in the form of cppTests.
func (p peer) cpp(t *testing.T, path string) (out, reason string) {
	out, errs, ok := p.run(t, path)
	for line := range strings.Lines(errs) {
		if rest, ok := strings.CutPrefix(line, "pmcpp: "); ok {
			reason += strings.TrimPrefix(rest, "Error: ")
		}
	}
	if ok == (reason != "") {
		t.Errorf("pmcpp: ok is %v and stderr %q", ok, errs)
	}
	return out, strings.TrimSuffix(reason, "\n")
}

// names returns the names that pminfo finds in a file, in the form of parseTests, and
// its message about a mistake.
func (p peer) names(t *testing.T, path string, unique bool) (list string, errs []string) {
	opt := "-n"
	if unique {
		opt = "-N"
	}
	stdout, stderr, ok := p.run(t, opt, path, "-m")
	var names []string
	for line := range strings.Lines(stdout) {
		name, id, found := strings.Cut(strings.TrimSpace(line), " PMID: ")
		if found && !strings.HasPrefix(id, "511.0.") { // derived metrics
			names = append(names, name+" "+id)
		}
	}
	for line := range strings.Lines(stderr) {
		if _, text, found := strings.Cut(line, "Error Parsing ASCII PMNS: "); found {
			errs = append(errs, strings.TrimSpace(text))
		}
	}
	if !ok && stderr == "" {
		errs = []string{"crashed"}
	}
	if ok == (errs != nil) {
		t.Errorf("pminfo: ok is %v and stderr %q", ok, stderr)
	}
	return strings.Join(names, ", "), errs
}

func TestPeerCpp(t *testing.T) {
	pmcpp := newPeer(t, "/usr/lib/pcp/bin/pmcpp")
	chdirTo(t, cppFiles)
	for _, tt := range cppTests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile("f", []byte(tt.in), 0o666); err != nil {
				t.Fatal(err)
			}
			out, reason := pmcpp.cpp(t, "f")
			if same := out == tt.out && reason == tt.err; same != (tt.differs == "") {
				t.Errorf("%q (differs: %q):\npmcpp %q %q\nwant  %q %q", tt.in, tt.differs, out, reason, tt.out, tt.err)
			}
		})
	}
}

func TestPeerParse(t *testing.T) {
	pminfo := newPeer(t, "/usr/bin/pminfo")
	chdirTo(t, nil)
	for _, tt := range parseTests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile("f", []byte(tt.in), 0o666); err != nil {
				t.Fatal(err)
			}
			list, errs := pminfo.names(t, "f", tt.unique)
			same := list == tt.names && (errs == nil && tt.err == "" || slices.Contains(errs, tt.err))
			if same != (tt.differs == "") && !strings.HasPrefix(tt.differs, "at times ") {
				t.Errorf("%q (differs: %q):\npminfo %q %q\nwant   %q %q", tt.in, tt.differs, list, errs, tt.names, tt.err)
			}
		})
	}
}

// TestPeerNames compares the order of the names of one metric.
func TestPeerNames(t *testing.T) {
	pminfo := newPeer(t, "/usr/bin/pminfo")
	chdirTo(t, nil)
	found := regexp.MustCompile(`\n +1\.2\.3 \((.*)\): `)
	for _, text := range []string{
		"root {\n a 1:2:3\n b\n c 1:2:3\n}\nb {\n x 1:2:3\n y 5:5:5\n}\n",
		"b {\n x 1:2:3\n y 1:2:3\n}\nroot {\n a 1:2:3\n b\n c 1:2:3\n}\n",
		"root {\n a\n c 1:2:3\n b\n}\nb {\n x 1:2:3\n}\na {\n y 1:2:3\n z 1:2:3\n}\n",
	} {
		if err := os.WriteFile("f", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		// In a context without agents, pminfo prints all names of metrics that it cannot
		// fetch.
		_, stderr, _ := pminfo.run(t, "-n", "f", "-L", "-K", "clear", "-D", "fetch", "-f", "c")
		m := found.FindStringSubmatch(stderr)
		tree, err := Load("f", Options{})
		if m == nil || err != nil {
			t.Fatalf("%q: pminfo says %q, error %v", text, stderr, err)
		}
		if got := strings.Join(tree.Names(1<<22|2<<10|3), ", "); got != m[1] {
			t.Errorf("%q: got %s, pminfo has %s", text, got, m[1])
		}
	}
}

// TestPeerInstalled reads all installed files of PCP, including those that are only
// valid when another file includes them.
func TestPeerInstalled(t *testing.T) {
	pmcpp, pminfo := newPeer(t, "/usr/lib/pcp/bin/pmcpp"), newPeer(t, "/usr/bin/pminfo")
	if os.Getenv("PCP_DIR") != "" {
		t.Skip("pmcpp looks in the system")
	}
	var files []string
	for _, pattern := range []string{
		"/var/lib/pcp/pmns/*", "/var/lib/pcp/pmdas/*/root*", "/var/lib/pcp/pmdas/*/pmns*",
		"/var/lib/pcp/testsuite/pmdas/*/root", "/var/lib/pcp/testsuite/pmdas/*/pmns*", "/var/lib/pcp/testsuite/src/*pmns*", "testdata/*.pmns",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	include := Options{IncludePath: []string{"/var/lib/pcp/pmns"}, Shell: Shell(t.Context())}
	for _, f := range files {
		if fi, err := os.Stat(f); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		t.Run(f, func(t *testing.T) {
			var out strings.Builder
			reason := cppReason(t, preprocess(&out, f, include))
			wantOut, wantReason := pmcpp.cpp(t, f)
			if strings.Contains(f, "perfevent") {
				// C pmcd loses a last line without newline, here a closing brace.
				if a, b := strings.Count(out.String(), "}"), strings.Count(wantOut, "}"); a != b+1 {
					t.Errorf("%d closing braces, pmcpp leaves %d", a, b)
				}
			} else if out.String() != wantOut || reason != wantReason {
				t.Errorf("pmcpp %s\nand here %s\n%s", wantReason, reason, firstDiff(out.String(), wantOut))
			}
			comparePeer(t, pminfo, f, include)
		})
	}
	t.Logf("%d files", len(files))
}

func firstDiff(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// comparePeer compares the verdict, the first error, and names and PMIDs.
func comparePeer(t *testing.T, pminfo peer, f string, opt Options) {
	t.Helper()
	opt.Preprocess = true
	tree, err := Load(f, opt)
	list, errs := pminfo.names(t, f, opt.Unique)
	var e *Error
	if !errors.As(err, &e) {
		if got := listing(tree); errs != nil || got != list {
			t.Errorf("pminfo %q\n%.2000s\ngot\n%.2000s", errs, list, got)
		}
		return
	}
	want := e.Err.Error()
	if errors.Is(err, ErrCpp) {
		want = ErrCpp.Error()
	}
	if len(errs) > 0 && strings.HasPrefix(errs[0], "Duplicate name ") {
		return // it looks for those at each }, before it has come to other mistakes
	}
	if !slices.Contains(errs, want) {
		t.Errorf("got %v\npminfo %q %.2000s", err, errs, list)
	}
}

// TestPeerRandom compares the results for random texts. PMCD_PEER_RUNS is their number,
// PMCD_PEER_SEED the seed of the random numbers.
func TestPeerRandom(t *testing.T) {
	pmcpp, pminfo := newPeer(t, "/usr/lib/pcp/bin/pmcpp"), newPeer(t, "/usr/bin/pminfo")
	number := func(name string, def uint64) uint64 {
		if s := os.Getenv(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		return def
	}
	runs, seed := number("PMCD_PEER_RUNS", 150), number("PMCD_PEER_SEED", 1)
	chdirTo(t, cppFiles)
	for i := range runs {
		r := rand.New(rand.NewPCG(seed, i))
		text := randomCpp(r)
		if err := os.WriteFile("f", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		reason := cppReason(t, preprocess(&out, "f", Options{}))
		wantOut, wantReason := pmcpp.cpp(t, "f")
		if strings.HasSuffix(wantReason, "\nMacro redefinition") && strings.Contains(wantReason, "]: #else") {
			continue // see cppTests
		}
		if out.String() != wantOut || noLine(reason) != noLine(wantReason) {
			t.Errorf("seed %d %d: %q\ngot   %q %q\npmcpp %q %q", seed, i, text, out.String(), reason, wantOut, wantReason)
		}
		text = randomPMNS(r)
		if err := os.WriteFile("f", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		comparePeer(t, pminfo, "f", Options{Unique: r.IntN(4) == 0})
		if t.Failed() {
			t.Fatalf("seed %d %d: %q", seed, i, text)
		}
	}
}

// noLine removes the line number of an #ifdef without #endif, which pmcpp does not
// always report correctly.
func noLine(reason string) string {
	before, _, _ := strings.Cut(reason, " for #ifdef or #ifndef at line ")
	return before
}

// randomCpp returns text for pmcpp, without the known differences: see cppTests.
func randomCpp(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	macro := func() string { return pick("A", "B", "A", "_c", "A1", "1", "A-", "") }
	var b strings.Builder
	branch := false
	for range 1 + r.IntN(12) {
		switch r.IntN(12) {
		case 0, 1, 2:
			b.WriteString("#define " + macro() + pick("", " ", " 1", " \"x y\"", " 'A'", "\tB ", " x y", " \"") + pick("", "", " ", " /* c */", " /*"))
		case 3:
			b.WriteString("#undef " + macro() + pick("", "", " x"))
		case 4, 5:
			if !branch || r.IntN(20) == 0 {
				b.WriteString(pick("#ifdef ", "#ifndef ", "#ifdef\t") + pick("A", "B", "A1", macro()) + pick("", "", "", " x"))
				branch = true
			}
		case 6:
			b.WriteString("#else" + pick("", " ", " /**/", "", "x"))
		case 7, 8:
			b.WriteString("#endif" + pick("", " ", " /**/", "", "x"))
			branch = false
		case 9:
			b.WriteString("#include " + pick("\"", "<") + pick("one", "dir/near", "empty", "l1", "l2", "ifdef", "open", "nope") + pick("\"", ">") + pick("", " ", " x"))
		default:
			for range r.IntN(8) {
				b.WriteString(pick("A", "B", " ", "\t", "/*", "*/", "/", "*", "A1", "x", "\"", "'", "_c", "{", "1", "."))
			}
		}
		b.WriteByte('\n')
	}
	if branch && r.IntN(4) > 0 {
		b.WriteString("#endif\n")
	}
	return b.String()
}

// randomPMNS returns a name space, which is usually valid. It is without the known
// differences: see parseTests.
func randomPMNS(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	slip := func(n int) bool { return r.IntN(n) == 0 }
	var blocks []string
	twice := false
	var add func(path string, depth int)
	add = func(path string, depth int) {
		names := strings.Fields("a b c d e a1 a_b ab Z root")
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var b strings.Builder
		b.WriteString(path + pick(" {\n", " { ", "\n{\n"))
		if slip(200) {
			b.WriteString(pick("{ ", "} ", "1:1:1 ", "a.b ", "- "))
		}
		for _, name := range names[:r.IntN(5)] {
			full := name
			if path != "root" {
				full = path + "." + name
			}
			switch {
			case depth > 0 && r.IntN(2) == 0 && full != "root":
				if !slip(60) {
					add(full, depth-1)
				}
				if slip(100) {
					add(full, 0)
				}
				b.WriteString(name)
			case slip(12):
				b.WriteString(name + " " + pick("1:*:*", "2 : * : *", "510:*:*"))
			case slip(60):
				b.WriteString(name + " " + pick("511:1:1", "1:4096:1", "1:1:1024", "1:1", "1:*:1", "1:a:1", "511:*:*", "1:1:1}", "*:1:1"))
			default:
				fmt.Fprintf(&b, "%s %d:%d:%d", name, r.IntN(3), r.IntN(5), r.IntN(8))
			}
			b.WriteString(pick(" ", "\n", "\t", "\n\n"))
			if slip(100) {
				b.WriteString(name + " 1:1:1\n")
				twice = true
			}
		}
		if twice || !slip(300) {
			b.WriteString(pick("}\n", "}\n", "} "))
		}
		blocks = append(blocks, b.String())
	}
	add("root", 3)
	if slip(50) {
		add(pick("a", "root", "x.y"), 1)
	}
	r.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	return strings.Join(blocks, "") + "\n"
}
