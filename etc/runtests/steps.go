package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A step is a command.
type step struct {
	name   string
	args   []string
	env    []string
	silent bool // it fails if it prints
}

// Packages, as patterns for the go command.
var (
	// Where there is concurrency. internal/launch/goplugin is not among them: with the race
	// detector its plugins take a minute to build when nothing is cached.
	raced = []string{"./daemon/...", "./internal/transport/...", "./internal/wire", "./internal/fairqueue", "./internal/rawio",
		"./internal/launch/child", "./internal/launch/dsohost", "./internal/launch/roothelper", "./internal/launch/shared",
		"./agents/serve/...", "./pdu/pmapi"}
	// Tests that boot machines.
	booted = []string{"./cmd/pmcd/tests/systemtest", "./cmd/pmcd/internal/booted"}
	// Tests that run PCP's programs.
	peers = []string{"./cmd/pmcd/tests/peertest/..."}
	// Tests that build pmcd in other ways.
	compiling = []string{"./cmd/pmcd/tests/plugintest", "./cmd/pmcd/tests/packagetest"}
	// Tests that take all CPUs.
	fuzzed = []string{"./cmd/pmcd/tests/fuzztest"}
	// Tests with another release of PCP, and with PCP's agents for other programs.
	others = []string{"./cmd/pmcd/tests/releasetest", "./cmd/pmcd/tests/pmdatest"}
	// Tests that run for minutes.
	long = slices.Concat(compiling, fuzzed, others, []string{"./cmd/pmcd/tests/qemutest"})
	// Parsers of untrusted input: sizes and offsets must not overflow a 32-bit int.
	parsers = []string{"./pdu", "./pdu/pmapi", "./pmcdconf/...", "./pmnsload", "./access", "./internal/tracepdu",
		"./agents/pmda/cache", "./agents/builtin/internal/sysfile", "./agents/builtin/mmv", "./internal/rawio"}
)

// groups returns the steps of a name. Those of a group run side by side.
func groups(name string) [][]step {
	switch name {
	case "test": // on any machine, in minutes
		return [][]step{
			{{name: "format", args: []string{"gofmt", "-l", "."}, silent: true}},
			// go test would compile all for vet, too, once more with the race detector.
			{tests("unit tests with the race detector", raced, "-race", "-vet=off", "-skip=^TestPeer")},
			{tests("unit tests and go vet", except(raced, booted, peers, long), "-vet=all", "-short", "-skip=^TestPeer"),
				{name: "go vet of what has run with the race detector", args: append([]string{"go", "vet"}, raced...)}},
			// Not side by side: the agents see the control groups of the machine.
			{tests("beside PCP", peers, "-count=1", "-run=^("+strings.Join(besidePCP, "|")+")$")},
			{tests("on a booted machine", booted[:1], "-count=1", "-run=^TestReadme$").with("PMCD_BOOT=1")},
		}
	case "check":
		return [][]step{{
			{name: "staticcheck", args: []string{"go", "run", "honnef.co/go/tools/cmd/staticcheck@v0.8.2", "./..."}},
			{name: "go.mod", args: []string{"go", "mod", "tidy", "-diff"}},
			tests("imports", []string{"./cmd/pmcd"}, "-run=^Test(Imports|PublicAPI|Examples|Skips)$"),
		}}
	case "peertest":
		return [][]step{
			{tests("beside PCP", peers, "-count=1", "-p=2")},
			{tests("beside PCP, of packages", withPeers(), "-count=1", "-run=^TestPeer")},
		}
	case "systemtest":
		// Most of the time machines boot and wait, so two are up at a time.
		return [][]step{{
			tests("on booted machines", booted, "-count=1", "-skip=^TestPackage"),
			tests("on booted machines, packages", booted, "-count=1", "-run=^TestPackage"),
		}}
	case "flakes": // with the race detector beside PCP, which make ci leaves out
		return [][]step{
			{tests("unit tests with the race detector", raced, "-race", "-skip=^TestPeer")},
			{tests("unit tests", except(raced, booted, peers, long), "-skip=^TestPeer")},
			{tests("beside PCP", peers, "-race", "-p=2")},
		}
	case "rest": // of what the CI runs
		machines, beside := groups("systemtest"), groups("peertest")
		// The tests beside PCP wait most of the time. What only computes has the CPUs meanwhile,
		// with a low priority.
		for _, st := range groups("check")[0] {
			beside[0] = append(beside[0], st.niced())
		}
		beside[0] = append(beside[0],
			// One after the other: both build pmcd without cgo.
			tests("Go plugins and releases", compiling, "-count=1", "-p=1").niced(),
			build("windows", "./pdu/...").niced(),
			tests("32-bit parsers", parsers, "-skip=^TestPeer").with("CGO_ENABLED=0", "GOARCH=386").niced(),
			tests("big-endian PDUs", parsers[:1], "-exec=qemu-s390x-static", "-skip=^TestPeer").with("CGO_ENABLED=0", "GOARCH=s390x").niced())
		beside[1] = append(beside[1],
			tests("what builds programs", []string{"./internal/launch/goplugin", "./cmd/pmcd/internal/verify", "./docs/docstest"}),
			tests("programs with the race detector", []string{"./cmd/pmcd", "./cmd/pmcd/internal/checkagents", "./cmd/pmcd/pmcdctl"}, "-race", "-skip=^TestPeer"))
		return slices.Concat(beside, machines, [][]step{
			{tests("PCP's agents, another release of PCP", others, "-count=1", "-p=1")},
			{tests("the daemon, fuzzed", fuzzed, "-count=1")},
		})
	}
	return nil
}

// besidePCP are tests of peertest that take little time.
var besidePCP = []string{"TestTools", "TestPmlogger", "TestPeerReload", "TestPeerHostRules", "TestPeerSession", "TestTransports"}

func tests(name string, packages []string, args ...string) step {
	// Many tests wait, so twice as many packages as CPUs are tested at a time.
	parallel := fmt.Sprintf("-p=%d", 2*runtime.NumCPU())
	return step{name: name, args: slices.Concat([]string{"go", "test", "-json", "-timeout=60m", parallel}, args, packages)}
}

func build(goos, packages string) step {
	return step{name: "build for " + goos, args: []string{"go", "build", packages}, env: []string{"CGO_ENABLED=0", "GOOS=" + goos}}
}

func (s step) with(env ...string) step {
	s.env = env
	return s
}

// niced returns s with a low priority.
func (s step) niced() step {
	s.args = slices.Concat([]string{"nice", "-n", "10"}, s.args)
	return s
}

// list returns the import paths of packages.
func list(patterns ...string) []string {
	cmd := exec.Command("go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, _ := cmd.Output() // what fails here fails in go test, too
	return strings.Fields(string(out))
}

// except returns all packages but these.
func except(lists ...[]string) []string {
	others := list(slices.Concat(lists...)...)
	return slices.DeleteFunc(list("./..."), func(p string) bool { return slices.Contains(others, p) })
}

// withPeers returns the directories with tests named TestPeer, other than those of peers.
func withPeers() (dirs []string) {
	all := slices.Concat(booted, long)
	for _, p := range except(peers) {
		dir := "./" + short(p)
		files, _ := filepath.Glob(dir + "/*_test.go")
		if !slices.Contains(all, dir) && slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Contains(text, []byte("\nfunc TestPeer"))
		}) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
