package peertest

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// faults is a daemon with a Go plugin, C shared objects, an agent behind a pipe
// and lines that cannot work, and a client of it.
type faults struct {
	t      *testing.T
	dir    string // of the files that lines name
	plugin string // testdata/faulty
	object string // a copy of the agent simple
	bad    []badLine
	d      *peer.Daemon
	client *pmapi.Client
}

func (f *faults) path(name string) string { return filepath.Join(f.dir, name) }

func (f *faults) write(name string, b []byte) string {
	f.t.Helper()
	if err := os.WriteFile(f.path(name), b, 0o755); err != nil {
		f.t.Fatal(err)
	}
	return f.path(name)
}

func (f *faults) read(path string) []byte {
	f.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// build builds a plugin.
func (f *faults) build(name, src string, flags ...string) string {
	f.t.Helper()
	args := append([]string{"build", "-buildmode=plugin", "-o", f.path(name)}, flags...)
	if out, err := exec.Command("go", append(args, src)...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v\n%s", err, out)
	}
	return f.path(name)
}

// sendFetch sends a fetch with a connection of its own. The reply is not read.
func (f *faults) sendFetch(t *testing.T, ids ...pdu.PMID) {
	t.Helper()
	c, err := pdutest.Dial("unix", f.d.Sock, "")
	if err != nil {
		t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	if err := errors.Join(c.Handshake(0), c.Send(&pdu.Profile{}, &pdu.Fetch{PMIDs: ids})); err != nil {
		t.Fatal(err)
	}
}

// fetch returns what a fetch brings, a word for each metric.
func (f *faults) fetch(t *testing.T, ids ...pdu.PMID) string {
	t.Helper()
	words, _, err := pmcdtest.Words(f.client, ids...)
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// hangup sends SIGHUP and waits until pmcd has done what that asks for.
func (f *faults) hangup(t *testing.T) {
	t.Helper()
	sighups := func() string { return f.fetch(t, pdu.NewPMID(2, 0, 22)) } // pmcd.sighups
	before := sighups()
	f.d.Signal(syscall.SIGHUP)
	if !peer.Until(peer.Hangs, func() bool { return sighups() != before }) {
		t.Fatal("SIGHUP has no effect")
	}
}

// says waits for a line of the log that has text in it, and fails the test
// unless there are as many as it should be and the first has want in it.
func (f *faults) says(t *testing.T, text string, count int, want string) {
	t.Helper()
	var got []string
	peer.Until(peer.Hangs, func() bool {
		got = nil
		for line := range strings.Lines(f.d.Log()) {
			if strings.Contains(line, text) {
				got = append(got, line)
			}
		}
		return len(got) >= count
	})
	if len(got) != count || count > 0 && !strings.Contains(got[0], want) {
		t.Errorf("the log has %q, want %d with %q", got, count, want)
	}
}

// startFaults starts the daemon and connects to it.
func startFaults(t *testing.T) *faults {
	t.Helper()
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Skipf("not a Go program: %v", err)
	}
	var race []string
	if slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		race = []string{"-race"}
	}
	object, err := peer.SimpleDSO()
	if err != nil {
		t.Fatal(err)
	}
	program, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{t: t, dir: t.TempDir()}
	f.plugin = f.build("faulty.so", "./testdata/faulty", race...)
	f.object = f.write("object.so", f.read(object))
	f.bad = f.badLines(race)
	lines := []string{
		"pmcd 2 dso pmcd_init " + peer.PMDAs + "pmcd/pmda_pmcd.so",
		"piped 254 pipe binary " + program + " -d 254 -U root",
		"hosted 253 dso simple_init " + object,
		"bus 252 dso simple_init " + f.object,
		"segv 29 dso sample_init " + peer.PMDAs + "sample/pmda_sample.so",
	}
	for i, name := range []string{"good", "panics", "blocks", "loops", "waits"} {
		lines = append(lines, fmt.Sprintf("%s %d dso good_init %s", name, 400+i, f.plugin))
	}
	for i, b := range f.bad {
		lines = append(lines, fmt.Sprintf("%q %d dso %s %s", b.name, 410+i, b.entry, b.path))
	}
	f.d = peer.StartT(t, path, peer.Config{Agents: lines, Args: []string{"-t", "3", "-q", "20"},
		Env: []string{"PMCD_RESTART_AGENTS=0"}}) // the test says when they are started again
	if f.client, err = pmapi.Dial(t.Context(), f.d.Host(peer.Unix), pmapi.Options{Timeout: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.client.Close() })
	return f
}
