// Bench compares a pmcd with PCP's: it runs both in turns with the same
// configuration and prints a table of latencies, rates, CPU time and memory.
//
// Bench starts the daemons, each with its own port, directory and agents. It needs
// the packages that "make peers" installs. "make bench" calls it; -list prints the
// scenarios. With -soak it runs only the pmcd of this module under mixed load and
// exits with an error if a request fails or if memory, goroutines or descriptors
// grow.
//
// With -hostile it measures a client while others attack pmcd.
//
// The scenarios of group calm have clients that fetch at a fixed rate. In all others each
// client is a closed loop on a blocking socket, with a thread of its own. A
// latency is the time from before the request is written until the reply has been
// read and checked.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/serve"
)

// options are those of the command line.
type options struct {
	pmcd, c string        // programs
	names   string        // of scenarios
	rounds  int           // 0 is the default of each scenario
	time    time.Duration // measured in a round or of an attack; 0 is the default
	json    string        // file
	text    string        // file
	into    string        // files, separated by commas
	soak    time.Duration
	// soakLoggers is the number of clients of the soak that fetch once a second, in
	// place of the mixed load; 0 is mixed load.
	soakLoggers int
	hostile     hostileOptions
	base        string   // directory for the files of daemons
	args        []string // of all daemons

	progress io.Writer
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == slowArg {
		serve.Main(slowAgent)
	}
	if len(os.Args) == 4 && os.Args[1] == childArg {
		childMain(os.Args[2], os.Args[3])
	}
	o := &options{progress: os.Stderr}
	flag.StringVar(&o.pmcd, "pmcd", "bin/pmcd", "the `program` to measure")
	flag.StringVar(&o.c, "c", "/usr/lib/pcp/bin/pmcd", "the `program` to compare it with")
	flag.StringVar(&o.names, "scenarios", "all", "a `list` of scenarios, with commas; calm, closed and hosts are groups, all is calm and closed")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of each scenario; 0 is 8, and 1 to 3 of what takes long")
	flag.DurationVar(&o.time, "time", 0, "measured in each round, or of each attack; 0 is 300ms, and 10s of group calm and of attacks")
	flag.StringVar(&o.json, "json", "", "write all numbers to this `file`")
	flag.StringVar(&o.text, "text", "", "write the table to this `file`, too")
	flag.StringVar(&o.into, "into", "", "put a short table into these `files`, separated by commas, between their marks")
	flag.DurationVar(&o.soak, "soak", 0, "run -pmcd under mixed load for this `time`, and nothing else")
	flag.IntVar(&o.soakLoggers, "soak-loggers", 0, "so many clients of -soak, each of which fetches once a second, in place of the mixed load")
	flag.StringVar(&o.hostile.names, "hostile", "", "measure a client beside attackers: a `list` of attacks, with commas, or all; and nothing else")
	flag.BoolVar(&o.hostile.both, "both", false, "attack C pmcd, too")
	flag.BoolVar(&o.hostile.full, "full", false, "attackers have the same priority as the daemon, not the lowest")
	list := flag.Bool("list", false, "name the scenarios and exit")
	flag.Parse()
	if *list {
		for _, s := range scenarios {
			fmt.Printf("%-15s %s\n", s.name, s.about)
		}
		for _, h := range attackScenarios {
			fmt.Printf("-hostile %-15s %s\n", h.name, h.about)
		}
		return
	}
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o *options) run() (err error) {
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	for _, p := range []*string{&o.pmcd, &o.c} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	for _, f := range []string{o.pmcd, o.c, ".peers/pmdasimple", pmdaDir + "/sample/pmdasample", pmdaDir + "/linux/pmdalinux", stockPMNS} {
		if _, err := os.Stat(f); err != nil {
			return fmt.Errorf("%w (make build peers)", err)
		}
	}
	picked, err := o.pick()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(picked, func(s scenario) bool { return s.host }) && os.Getenv(ownHostVar) == "" {
		return ownHost()
	}
	if o.base, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	defer os.RemoveAll(o.base)
	if err := os.Chmod(o.base, 0o755); err != nil { // agents become user pcp
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	// A client that blocks in a system call must not keep others from running.
	runtime.GOMAXPROCS(runtime.NumCPU() + 80)
	debug.SetGCPercent(400)
	if o.soak > 0 {
		return runSoak(o, os.Stdout, stop)
	}
	if o.hostile.names != "" {
		return o.runHostile(os.Stdout, stop)
	}
	results, err := o.compare(picked, stop)
	if err != nil { // print the results so far, but write no files
		table(os.Stdout, results)
		return err
	}
	return o.report(results)
}

// pick returns the scenarios of -scenarios.
func (o *options) pick() (picked []scenario, err error) {
	for name := range strings.SplitSeq(o.names, ",") {
		before := len(picked)
		for _, s := range scenarios {
			if s.name == name || name == "hosts" && s.host || !s.host && (name == "all" || name == "calm" && s.calm || name == "closed" && !s.calm) {
				picked = append(picked, s)
			}
		}
		if len(picked) == before {
			return nil, fmt.Errorf("no scenario %q (-list names them)", name)
		}
	}
	return picked, nil
}
