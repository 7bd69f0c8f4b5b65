// Runtests runs the tests of this module, step by step. At the end it says which tests were
// slow, which were not run and why, and how many have passed.
//
// usage: runtests [-slowest N] [-flakes TIME] NAME...
//
// Function groups has the names. A test that lacks something on this machine, such as PCP or
// root's rights, is not run, unless PMCD_REQUIRE_PEERS=1 is set: then it fails (package
// internal/testutil).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

func main() {
	slowest := flag.Int("slowest", 0, "print so many of the slowest tests")
	again := flag.Duration("flakes", 0, "run the tests again and again for this `time`, under load")
	flag.Parse()
	for flag.Arg(0) == busyArg { // it is killed
	}
	// Without this, child processes with the race detector sleep for a second at their end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	var picked [][]step
	for _, name := range flag.Args() {
		all := groups(name)
		if all == nil {
			fmt.Fprintf(os.Stderr, "runtests: no steps %q\n", name)
			os.Exit(2)
		}
		picked = append(picked, all...)
	}
	begin := time.Now()
	s := newSummary(os.Stdout)
	if *again == 0 {
		runAll(picked, s)
	} else if err := flakes(picked, s, *again); err != nil {
		s.command("flakes", nil, err)
	}
	if !s.finish(*slowest, time.Since(begin)) {
		os.Exit(1)
	}
}

// runAll runs groups of steps.
func runAll(groups [][]step, s *summary) {
	for _, group := range groups {
		var wg sync.WaitGroup
		for _, st := range group {
			wg.Go(func() { st.run(s) })
		}
		wg.Wait()
	}
}

// run runs a step.
func (st step) run(s *summary) {
	s.title(st.name)
	begin := time.Now()
	cmd := exec.Command(st.args[0], st.args[1:]...)
	defer func() { s.took(st.name, time.Since(begin), cmd.ProcessState) }()
	cmd.Env = append(os.Environ(), st.env...)
	cmd.Stderr = os.Stderr
	if !slices.Contains(st.args, "-json") {
		out, err := cmd.Output()
		if st.silent && len(out) > 0 && err == nil {
			err = fmt.Errorf("%s prints", st.args[0])
		}
		s.command(st.name, out, err)
		return
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.command(st.name, nil, err)
		return
	}
	s.read(out)
	// The exit status of go test says no more than the events, unless there were none.
	if err := cmd.Wait(); err != nil && !s.failed() {
		s.command(st.name, nil, err)
	}
}
