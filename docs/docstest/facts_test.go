package docstest

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Figures that documents repeat are those of the last complete run of the bench.
func TestFigures(t *testing.T) {
	all := read(t, "docs/bench/table.md") + read(t, "docs/bench/hosts.md")
	for _, name := range []string{"README.md", "docs/performance.md"} {
		rows := 0
		for _, rest := range strings.Split(read(t, name), "<!-- bench: ")[1:] {
			text, _, ok := strings.Cut(rest, "<!-- /bench -->")
			if !ok {
				t.Fatalf("%s has a table of the bench without an end", name)
			}
			for line := range strings.Lines(text) {
				line = strings.TrimSpace(line)
				if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| | |") || strings.HasPrefix(line, "| scenario |") {
					continue
				}
				rows++
				if !strings.Contains(all, line) {
					t.Errorf("%s: not in the tables of docs/bench: %s", name, line)
				}
			}
		}
		if rows < 5 {
			t.Errorf("%s: only %d rows", name, rows)
		}
	}
}

// Figures within sentences and in other tables are numbers of the bench, too.
func TestFiguresInText(t *testing.T) {
	for _, tt := range []struct {
		document, text    string // %[1]s is the number here, %[2]s that of C pmcd
		scenario, measure string
	}{
		{"docs/performance.md", "(`calm-own`, Pss_Anon) | %[1]s MB | %[2]s MB |", "calm-own", "Pss_Anon, MB"},
		{"docs/performance.md", "(`rss`, RSS) | %[1]s MB | %[2]s MB |", "rss", "RSS, MB"},
		{"docs/performance.md", "(`clients`) | %[1]s KiB | %[2]s KiB |", "clients", "KiB/client, KiB"},
		{"docs/compatibility.md", "more memory: %[1]s MB in place of %[2]s MB", "calm-own", "Pss_Anon, MB"},
		{"docs/comparison.md", "takes\n  %[2]s MB as installed, and this one %[1]s MB.", "calm-own", "Pss_Anon, MB"},
	} {
		here, c := benchNumbers(t, tt.scenario, tt.measure)
		if want := fmt.Sprintf(tt.text, here, c); !strings.Contains(read(t, tt.document), want) {
			t.Errorf("%s does not have %q", tt.document, want)
		}
	}
}

// benchNumbers returns the numbers of a measure in docs/bench/table.md: here, and of C pmcd.
func benchNumbers(t *testing.T, scenario, measure string) (here, c string) {
	t.Helper()
	of := ""
	for line := range strings.Lines(read(t, "docs/bench/table.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			continue
		}
		if name, _, ok := strings.Cut(strings.TrimSpace(cells[1]), ": "); ok {
			of = name
		}
		if of == scenario && strings.TrimSpace(cells[2]) == measure {
			return strings.TrimSpace(cells[4]), strings.TrimSpace(cells[3])
		}
	}
	t.Fatalf("docs/bench/table.md has no %s of %s", measure, scenario)
	return "", ""
}

// Each scenario that misses a goal is in the list of docs/performance.md, and no other one.
func TestMissedGoals(t *testing.T) {
	_, list, ok := strings.Cut(read(t, "docs/performance.md"), "\n## Goals that are missed\n")
	if !ok {
		t.Fatal("docs/performance.md has no list of missed goals")
	}
	missed, of := make(map[string]bool), "" // by scenario: is a goal missed?
	for line := range strings.Lines(read(t, "docs/bench/table.md") + read(t, "docs/bench/hosts.md")) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), ": "); ok && strings.HasPrefix(line, "| ") {
			of = name
		}
		missed[of] = missed[of] || strings.Contains(line, "(missed)")
	}
	n := 0
	for scenario, want := range missed {
		listed := regexp.MustCompile(`(?m)^\| (.*, )?` + scenario + `[, ].*\|.*\|.*\|$`).MatchString(list)
		if listed != want {
			t.Errorf("%s has missed a goal: %v; is in the list of docs/performance.md: %v", scenario, want, listed)
		}
		if want {
			n++
		}
	}
	if n < 5 {
		t.Errorf("only %d scenarios with missed goals were found", n)
	}
}

// docs/provenance.md has the modules that are linked into each program, and no others.
func TestModules(t *testing.T) {
	if err := programs(); err != nil {
		t.Fatal(err)
	}
	linked := make(map[string][]string) // programs, by module
	for _, program := range []string{"pmcd", "pmcdctl", "pmcd-prometheus"} {
		info, err := buildinfo.ReadFile(filepath.Join(bin, program))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range info.Deps {
			linked[m.Path] = append(linked[m.Path], program)
		}
	}
	listed := regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \| \S.* \| (.*) \|$`).FindAllStringSubmatch(read(t, "docs/provenance.md"), -1)
	for _, m := range listed {
		if want := strings.Join(linked[m[1]], ", "); m[2] != want {
			t.Errorf("%s is in %q, docs/provenance.md says %q", m[1], want, m[2])
		}
		delete(linked, m[1])
	}
	if len(linked) > 0 || len(listed) < 10 {
		t.Errorf("docs/provenance.md has %d modules, and not %v", len(listed), linked)
	}
}

// Pages that are read first are short.
func TestSizes(t *testing.T) {
	for name, limit := range map[string]int{"README.md": 7 << 10, "docs/performance.md": 8 << 10} {
		if n := len(read(t, name)); n > limit {
			t.Errorf("%s has %d bytes, more than %d", name, n, limit)
		}
	}
}

// The table of packages in docs/architecture.md has each package that other
// packages may import, and none that is not there.
func TestPackages(t *testing.T) {
	text := read(t, "docs/architecture.md")
	cmd := exec.Command("go", "list", "-f", "{{if ne .Name \"main\"}}{{.ImportPath}}{{end}}", "./...")
	cmd.Dir = repo
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for pkg := range strings.FieldsSeq(string(out)) {
		pkg = strings.TrimPrefix(pkg, "github.com/gopcp/pmcd/")
		if strings.HasPrefix(pkg, "cmd/") {
			continue
		}
		n++
		if !strings.Contains(text, "`"+pkg+"`") {
			t.Errorf("docs/architecture.md does not have %s", pkg)
		}
	}
	if n < 20 {
		t.Errorf("go list knows %d packages", n)
	}
	for _, m := range regexp.MustCompile("`((?:agents|daemon|pdu|pmcdconf|pmnsload|access|etc|bench|docs)(?:/[a-z0-9]+)*)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(repo, m[1])); err != nil {
			t.Errorf("docs/architecture.md has %s: %v", m[1], err)
		}
	}
}

// The functions that docs/architecture.md says a request passes are methods of the
// daemon or of its connections to agents.
func TestWayOfARequest(t *testing.T) {
	_, text, ok := strings.Cut(read(t, "docs/architecture.md"), "\n## A request's way\n")
	text, _, ok2 := strings.Cut(text, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/architecture.md has no way of a request")
	}
	var all strings.Builder
	for _, text := range goFiles(t, "daemon", "internal/transport", "internal/wire") {
		all.WriteString(text)
	}
	n := 0
	for _, m := range regexp.MustCompile("`([A-Za-z]+)\\.([A-Za-z]+)`").FindAllStringSubmatch(text, -1) {
		n++
		method := regexp.MustCompile(`(?m)^func \(\w+ \*?` + m[1] + `\) ` + m[2] + `\(`)
		if !method.MatchString(all.String()) {
			t.Errorf("there is no method %s of a type %s", m[2], m[1])
		}
	}
	if n < 40 {
		t.Errorf("only %d methods", n)
	}
}

// The page of a built-in agent names each file in which a comment says what PCP's
// agent does otherwise.
func TestAgentDifferences(t *testing.T) {
	n := 0
	for name, text := range goFiles(t, "agents/builtin") {
		if !strings.Contains(text, "C differs:") && !strings.Contains(text, "C pmcd differs:") {
			continue
		}
		n++
		agent := strings.Split(name, "/")[2]
		page := read(t, "docs/agents/"+agentPage(agent))
		if want := "`" + path.Base(name) + "`"; !strings.Contains(page, want) && agentPage(agent) == agent+".md" || !strings.Contains(page, agent) {
			t.Errorf("docs/agents/%s has nothing about %s", agentPage(agent), name)
		}
	}
	if n < 40 {
		t.Errorf("only %d files have such comments", n)
	}
}

func agentPage(agent string) string {
	switch agent {
	case "trivial", "simple", "txmon":
		return "samples.md"
	}
	return agent + ".md"
}

// Each built-in agent has a page, and the index has that.
func TestAgentPages(t *testing.T) {
	index := read(t, "docs/README.md")
	dirs, err := filepath.Glob(filepath.Join(repo, "agents/builtin/*/program.go"))
	if err != nil || len(dirs) < 5 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, dir := range dirs {
		page := agentPage(filepath.Base(filepath.Dir(dir)))
		read(t, "docs/agents/"+page)
		if !strings.Contains(index, "(agents/"+page+")") {
			t.Errorf("docs/README.md has no %s", page)
		}
	}
}

// blank is where a line of the log has what varies.
var blank = regexp.MustCompile(`\b[A-Z]{1,}\b|\.\.\.|["\[\]]`)

// What docs/operations.md calls lines of the log are in the program, so that what
// looks for them finds them. Words in capitals stand for what varies.
func TestLogLines(t *testing.T) {
	var all strings.Builder
	for _, text := range goFiles(t, "daemon", "cmd/pmcd", "internal/launch", "internal/logfile", "internal/transport", "pmcdconf") {
		all.WriteString(text)
	}
	_, text, ok := strings.Cut(read(t, "docs/operations.md"), "\n## Log lines\n")
	text, _, ok2 := strings.Cut(text, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/operations.md has no section of log lines")
	}
	n := 0
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range code.FindAllString(cells[1], -1) {
			n++
			for _, part := range blank.Split(strings.Trim(m, "`"), -1) {
				part = strings.Trim(part, " ,;:()")
				if len(part) > 3 && !strings.Contains(all.String(), part) {
					t.Errorf("%s: no line of the program has %q", m, part)
				}
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d lines were found", n)
	}
}

// Manual pages are without warnings of man(1) and mandoc(1), and each is installed and
// in the index.
func TestManuals(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repo, "docs/*.[18]"))
	if err != nil || len(pages) != 5 {
		t.Fatalf("%v, %v", pages, err)
	}
	index, makefile := read(t, "docs/README.md"), read(t, "Makefile")+read(t, "etc/packaging/files.sh")
	for _, page := range pages {
		name := filepath.Base(page)
		if !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md has no %s", name)
		}
		if !strings.Contains(makefile, name) {
			t.Errorf("the Makefile has no %s", name)
		}
		t.Run("mandoc "+name, func(t *testing.T) {
			cmd := exec.Command(testutil.NeedProgram(t, "mandoc"), "-T", "lint", "-W", "warning", page)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		t.Run("man "+name, func(t *testing.T) {
			cmd := exec.Command(testutil.NeedProgram(t, "man"), "--warnings", "-E", "UTF-8", "-l", page)
			cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "MANPAGER=cat")
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || stderr.Len() > 0 || len(out) < 500 {
				t.Errorf("%v, %d bytes\n%s", err, len(out), &stderr)
			}
		})
	}
}

// The manual pages of programs have each option that the programs print.
func TestOptions(t *testing.T) {
	for _, tt := range []struct {
		page, section string
		help          []string
		least         int
	}{
		{"docs/pmcd.1", "OPTIONS", []string{"pmcd", "--help"}, 45},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "list", "--help"}, 6},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "describe", "--help"}, 4},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "get", "--help"}, 4},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "watch", "--help"}, 8},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "set", "--help"}, 4},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "compare", "--help"}, 7},
		{"docs/pmcd-prometheus.1", "DESCRIPTION", []string{"pmcd-prometheus", "--help"}, 7},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "status", "--help"}, 3},
		{"docs/pmcdctl.1", "DESCRIPTION", []string{"pmcdctl", "check-agents", "--help"}, 10},
	} {
		out, err := run(t, repo, slices.Clone(tt.help)...)
		if err != nil {
			t.Errorf("%v: %v\n%s", tt.help, err, out)
		}
		_, section, _ := strings.Cut(read(t, tt.page), "\n.Sh "+tt.section+"\n")
		section, _, _ = strings.Cut(section, "\n.Sh ")
		n := 0
		for _, m := range regexp.MustCompile(`(?m)^  +(?:-(\S)(?:, | ))?(?:--([a-z-]+))?`).FindAllStringSubmatch(out, -1) {
			for _, option := range []string{m[1], "-" + m[2]} {
				if option == "" || option == "-" || tt.help[0] == "pmcdctl" && option == "-help" {
					continue
				}
				n++
				if option == "?" {
					option = `\&?`
				}
				if !regexp.MustCompile(`(?m)^\.It (.* )?Fl ` + regexp.QuoteMeta(option) + `( |$)`).MatchString(section) {
					t.Errorf("%v has -%s, %s has not", tt.help, option, tt.page)
				}
			}
		}
		if n < tt.least {
			t.Errorf("%v has only %d options", tt.help, n)
		}
	}
}
