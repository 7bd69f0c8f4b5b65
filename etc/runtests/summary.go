package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// An event is a line of "go test -json" (go doc test2json), or of "go build -json".
type event struct {
	Action     string
	Package    string
	ImportPath string // of a package that does not build
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// A test is one that has ended, and no subtest.
type test struct {
	name    string // with its package
	elapsed float64
}

// A summary collects the results of all steps.
type summary struct {
	mu       sync.Mutex // guards the following, for steps that run side by side
	out      io.Writer
	packages int
	passed   []test
	failures []string
	notRun   map[string][]string // tests, by reason
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, notRun: make(map[string][]string)}
}

func (s *summary) title(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "== %s %s\n", time.Now().UTC().Format(time.TimeOnly), name)
}

// command records a step that is no test.
func (s *summary) command(name string, out []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Write(out)
	if err != nil {
		fmt.Fprintf(s.out, "FAIL %s: %v\n", name, err)
		s.failures = append(s.failures, name)
	}
}

// took prints how long a step that has ended took, and its CPU time with that of its children.
func (s *summary) took(name string, d time.Duration, end *os.ProcessState) {
	if end == nil {
		return // it did not start
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "== %s took %v, CPU time %v\n", name, d.Round(time.Second), (end.UserTime() + end.SystemTime()).Round(time.Second))
}

func (s *summary) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.failures) > 0
}

// read reads the events of a step.
func (s *summary) read(r io.Reader) {
	// What tests and packages that run have printed; the key is package and test. Another step may
	// run other tests of a package meanwhile.
	output := make(map[string][]string)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil { // not every error of the go command is JSON
				e = event{Action: "build-output", Output: string(line)}
			}
			s.add(e, output)
		}
		if err != nil {
			return
		}
	}
}

func (s *summary) add(e event, output map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := e.Package + " " + e.Test
	top := e.Test != "" && !strings.Contains(e.Test, "/")
	switch e.Action {
	case "output":
		output[key] = append(output[key], e.Output)
	case "build-output":
		io.WriteString(s.out, e.Output)
	case "build-fail":
		s.failures = append(s.failures, e.ImportPath+" does not build")
	case "skip":
		if e.Test != "" {
			reason := reasonOf(output[key])
			s.notRun[reason] = append(s.notRun[reason], key)
		}
		delete(output, key)
	case "pass":
		if top {
			s.passed = append(s.passed, test{key, e.Elapsed})
		} else if e.Test == "" {
			s.packages++
			fmt.Fprintf(s.out, "ok   %-60s %6.1fs\n", short(e.Package), e.Elapsed)
		}
		delete(output, key)
	case "fail":
		if e.Test != "" {
			s.failures = append(s.failures, key)
		} else {
			s.unfinished(e.Package, output)
		}
		fmt.Fprintf(s.out, "FAIL %s\n%s", key, strings.Join(output[key], ""))
		// A package can fail without a test: in TestMain, or when it is killed.
		if e.Test == "" && !slices.ContainsFunc(s.failures, func(f string) bool { return strings.HasPrefix(f, e.Package+" ") }) {
			s.failures = append(s.failures, key)
		}
		delete(output, key)
	}
}

// unfinished records the tests of a package that were running when it failed: one of them
// hangs, or has ended the process. The caller holds mu.
func (s *summary) unfinished(pkg string, output map[string][]string) {
	for _, key := range slices.Sorted(maps.Keys(output)) {
		if strings.HasPrefix(key, pkg+" Test") {
			s.failures = append(s.failures, key+" has not ended")
			fmt.Fprintf(s.out, "FAIL %s has not ended\n%s", key, strings.Join(output[key], ""))
			delete(output, key)
		}
	}
}

// short returns a package or test without the name of the module.
func short(name string) string { return strings.TrimPrefix(name, "github.com/gopcp/pmcd/") }

// position is where a test says why it is skipped.
var position = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// reasonOf returns why a test is skipped, from its output.
func reasonOf(output []string) string {
	reason := "no reason"
	for _, line := range output {
		if p := position.FindString(line); p != "" {
			reason = strings.TrimSpace(line[len(p):])
		}
	}
	return reason
}

// finish prints the end, and reports whether nothing has failed.
func (s *summary) finish(slowest int, took time.Duration) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slowest > 0 {
		slices.SortFunc(s.passed, func(a, b test) int { return cmp.Compare(b.elapsed, a.elapsed) })
		fmt.Fprintf(s.out, "== slowest tests\n")
		for _, t := range s.passed[:min(slowest, len(s.passed))] {
			fmt.Fprintf(s.out, "%6.1fs %s\n", t.elapsed, short(t.name))
		}
	}
	skipped := 0
	if len(s.notRun) > 0 {
		fmt.Fprintf(s.out, "== not run\n")
		for _, reason := range slices.Sorted(maps.Keys(s.notRun)) {
			tests := s.notRun[reason]
			skipped += len(tests)
			fmt.Fprintf(s.out, "%4d %s (%s", len(tests), reason, short(tests[0]))
			if len(tests) > 1 {
				fmt.Fprintf(s.out, " ...")
			}
			fmt.Fprintln(s.out, ")")
		}
	}
	if len(s.failures) > 0 {
		fmt.Fprintf(s.out, "== failed\n")
		for _, f := range s.failures {
			fmt.Fprintln(s.out, "    "+short(f))
		}
	}
	fmt.Fprintf(s.out, "== %d packages in %v\n%d passed, %d failed, %d skipped\n", s.packages, took.Round(time.Second), len(s.passed), len(s.failures), skipped)
	return len(s.failures) == 0
}
