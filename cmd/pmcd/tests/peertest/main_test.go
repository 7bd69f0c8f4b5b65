package peertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// pair is PCP's pmcd and ours, shared by all tests: agents take a second to start, and
// faults may show only after a daemon has served a hundred clients.
// It is nil where PCP is not installed.
var pair *peer.Pair

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == servedName { // the test program is an agent, too
		serve.Main(served)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	defer peer.Finish()
	flag.Parse()
	if peer.Missing() != nil {
		return m.Run() // each test says so
	}
	var err error
	if pair, err = peer.StartPair(peer.Config{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		fmt.Fprint(os.Stderr, pair.Ours.Report())
	}
	for _, d := range []*peer.Daemon{pair.Ours, pair.C} {
		if err := d.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	// Only a run of all tests can tell that a difference is gone.
	if code == 0 && !pair.Same() && flag.Lookup("test.run").Value.String() == "" {
		for _, d := range differences {
			if !d.Used() {
				fmt.Fprintf(os.Stderr, "the difference in %v (%s) was not met: remove it\n", d.Key, d.Why)
				code = 1
			}
		}
	}
	return code
}

// servers is the pair, for a test that needs it.
func servers(t *testing.T) *peer.Pair {
	t.Helper()
	peer.Require(t)
	return pair
}

// compare runs the client over each transport against both daemons.
func compare(t *testing.T, c peer.Client, cmp peer.Comparison) {
	t.Helper()
	p := servers(t)
	for _, tr := range peer.Transports {
		t.Run(tr.String(), func(t *testing.T) {
			usable(t, tr)
			p.Compare(t, tr, c, cmp)
		})
	}
}

// usable skips a test, or fails it where peers are required, if the machine
// lacks the transport.
func usable(t *testing.T, tr peer.Transport) {
	t.Helper()
	if tr != peer.TCP6 {
		return
	}
	if err := peer.IPv6(); err != nil {
		testutil.Missing(t, "no IPv6 loopback, see make peers: ", err)
	}
}

// client is a command against {host}.
func client(args ...string) peer.Client { return peer.Client{Args: args} }

// words is a command written as a line.
func words(line string) peer.Client { return peer.Client{Args: strings.Fields(line)} }
