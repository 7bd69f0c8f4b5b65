package peertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// pminfo is how all that pminfo prints is compared. Its exit status is 1 as
// soon as one metric of many has no agent.
func pminfo() peer.Comparison {
	return peer.Comparison{Split: peer.Metrics, Rewrite: describedAlike, Rules: moving, Differences: differences, Status: peer.AnyStatus}
}

// roots are the names at the top of the name space, without those below which
// each process of the machine is an instance.
var roots = sync.OnceValues(func() ([]string, error) {
	o, err := pair.C.Run(context.Background(), peer.TCP4, words("pminfo -h {host}"))
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(o.Stdout) {
		top, _, _ := strings.Cut(line, ".")
		if top != "proc" && top != "hotproc" {
			names = append(names, top)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 10 {
		return nil, fmt.Errorf("only %d names at the top: %q\n%s", len(names), names, o)
	}
	return names, nil
})

// allRoots is a command with all roots as arguments.
func allRoots(t *testing.T, line string) peer.Client {
	t.Helper()
	servers(t)
	names, err := roots()
	if err != nil {
		t.Fatal(err)
	}
	c := words(line)
	c.Args = append(c.Args, names...)
	return c
}

// compareAll compares a command with all roots as arguments. That takes seconds:
// one transport has to do. Others are for the tests of fewer metrics.
func compareAll(t *testing.T, line string, cmp peer.Comparison) {
	t.Helper()
	servers(t).Compare(t, peer.Unix, allRoots(t, line), cmp)
}

// TestPminfo asks for everything about every metric, one thing at a time and
// all at once.
func TestPminfo(t *testing.T) {
	t.Run("names", func(t *testing.T) {
		compare(t, words("pminfo -h {host}"), peer.Comparison{Split: peer.Lines})
	})
	for _, opts := range []string{"-m", "-M", "-d", "-v"} {
		t.Run("whole name space "+opts, func(t *testing.T) {
			compare(t, words("pminfo -h {host} "+opts), pminfo())
		})
	}
	for _, opts := range []string{"-t", "-T", "-l", "-s", "-I", "-f", "-F", "-x", "-dmMtTslIfxF"} {
		t.Run("all but processes "+opts, func(t *testing.T) {
			compareAll(t, "pminfo -h {host} "+opts, pminfo())
		})
	}
	t.Run("one metric at a time", func(t *testing.T) {
		compare(t, words("pminfo -h {host} -b 1 -f pmcd sample simple kvm"), pminfo())
	})
	// What there is to say about each process is told by pmprobe.
	t.Run("processes", func(t *testing.T) {
		compare(t, words("pminfo -h {host} -tT proc hotproc"), pminfo())
	})
}

// TestPminfoArguments names what exists, what does not, and what no agent serves.
func TestPminfoArguments(t *testing.T) {
	for _, args := range []string{
		"no.such.metric",
		"nosuch",
		"sample.nosuch",
		"sample.long.one.more",
		"sample.long",
		"sample.secret",
		"sample.secret.foo",
		"sample.secret.nosuch",
		"sample.ghosts",
		"mmv pmproxy",
		"kvm xfs.log jbd2",
		"sample.long.one no.such sample.long.ten",
		"29.0.10",
		"29.0.10 29.0.6 29.0.1000",
		"29.0.999",
		"29.5.1",
		"2.99.0 60.77.1 253.9.9 3.99.1",
		"200.0.1",
		"0.0.1",
		"510.0.1 511.0.1",
		"95.0.1 122.0.0",
		"29 60",
		"29.2 60.0 2.3 253.0 253.1",
		"29.99 2.99 60.99",
		"200.1",
		"sample.bad",
		"sample.dupnames",
		"sample.event",
		"sample.bad.unknown sample.long.one sample.bad.nosupport sample.bad.fetch.again sample.bad.novalues",
		"sample.long.one sample.long.one sample.long.one",
		"pmcd.agent hinv simple kvm",
	} {
		for _, opts := range []string{"-m", "-d", "-f", "-dmtTslIfxF"} {
			t.Run(args+" "+opts, func(t *testing.T) {
				compare(t, words("pminfo -h {host} "+opts+" "+args), pminfo())
			})
		}
	}
}
