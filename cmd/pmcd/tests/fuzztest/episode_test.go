package fuzztest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

const (
	requestTimeout   = 3 * time.Second // -t
	handshakeTimeout = 3 * time.Second // -q
	lateGrace        = 2 * time.Second // --late-grace

	// watchdogTime is how often pmcd must notify the watchdog.
	watchdogTime = 20 * time.Second

	// daemonUser is the user that pmcd becomes.
	daemonUser = "pcp"

	// boxName is a container that pmdaroot knows.
	boxName = "box"
)

// An episode is one pmcd and what is done to it.
type episode struct {
	*pmcdtest.Place
	seed       uint64
	long       bool
	privileged bool   // pmcd starts as root and has a root helper
	watch      bool   // --watch
	abrupt     bool   // pmcd is ended while there are clients
	stockNames string // etc/root
	plugin     string // testdata/unsteady
	journal    journal

	cmd      *exec.Cmd
	exited   chan struct{}
	ending   atomic.Bool // the end is expected
	tcp      string      // address
	external *external
	root     int // pid of the root helper

	ctx    context.Context // ends when the episode has failed, or its time is over
	cancel context.CancelFunc

	mu      sync.Mutex // guards the following
	failure string

	connections, requests, replies atomic.Int64 // of clients of the fuzzer
	peak                           atomic.Int64 // resident memory, in KiB
}

// newEpisode prepares an episode.
func newEpisode(t *testing.T, exe string, seed uint64, long bool) *episode {
	e := &episode{Place: pmcdtest.NewPlace(t, exe), seed: seed, long: long, exited: make(chan struct{})}
	if _, err := user.Lookup(daemonUser); err == nil && os.Geteuid() == 0 {
		e.privileged = seed%4 != 3
	}
	e.watch = e.random("watch").IntN(4) == 0
	e.abrupt = long && e.random("abrupt").IntN(4) == 0
	e.ctx, e.cancel = context.WithCancel(t.Context())
	t.Cleanup(e.cancel)
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadFile(filepath.Join(root, "etc/root"))
	if err != nil {
		t.Fatal(err)
	}
	e.stockNames = string(names)
	if e.plugin, err = peer.Plugin("unsteady.so", "./cmd/pmcd/tests/fuzztest/testdata/unsteady"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"agents", "var", "var/pmcd", "var/config", "var/config/pmda", "tmp"} {
		mode := os.FileMode(0o777)
		if dir == "agents" {
			mode = 0o755 // only root may change what runs as root
		}
		if err := errors.Join(os.Mkdir(e.At(dir), mode), os.Chmod(e.At(dir), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := install(pmcdtest.Self(t), e.At("agents/"+agentName)); err != nil {
		t.Fatal(err)
	}
	e.restoreFiles()
	return e
}

// install makes a copy of a program that all users can execute.
func install(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// sock returns the path of the Unix socket for clients.
func (e *episode) sock() string { return e.At("run/sock") }

// random returns a source of random numbers that depends on the seed and on what it is
// for.
func (e *episode) random(what string) generator { return newGenerator(e.seed, " ", what) }

// fail records why the episode has failed, and ends it. Only the first failure counts.
func (e *episode) fail(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == "" {
		e.failure = fmt.Sprintf(format, args...)
		e.journal.add("FAILED: %s", e.failure)
		e.cancel()
	}
}

// failed reports whether the episode has failed.
func (e *episode) failed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure != ""
}

// run runs the episode: requests and faults for a time, and checks.
func (e *episode) run(d time.Duration) {
	t := e.T
	defer e.report()
	e.start()
	if e.failed() {
		return
	}
	c := newChecker(e)
	defer c.close()
	idle := e.warmUp(c)
	if e.failed() {
		return
	}

	begin := time.Now()
	var tasks sync.WaitGroup
	calm, end := context.WithTimeout(e.ctx, d)
	defer end()
	clients := calm
	if e.abrupt {
		clients = e.ctx
	}
	for i := range numClients {
		tasks.Go(func() { e.client(clients, i) })
	}
	faults := e.injectFaults(calm)
	if e.abrupt {
		c.close()
		e.stopForGood()
		e.terminate()
	}
	tasks.Wait()
	if !e.abrupt {
		e.recover(c, idle)
		c.close()
		e.terminate()
	}
	if e.failed() {
		return
	}
	mode := "without root helper"
	if e.privileged {
		mode = "with root helper"
	}
	if e.watch {
		mode += ", watch"
	}
	if e.abrupt {
		mode += ", ended beside requests"
	}
	t.Logf("%s: %v, %d faults, %d connections, %d requests, %d replies, at most %d MiB; checked: %s",
		mode, time.Since(begin).Round(time.Second), faults, e.connections.Load(), e.requests.Load(), e.replies.Load(), e.peak.Load()>>10, c)
}

// status asks pmcd for its status.
func (e *episode) status() (*ctl.Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	return ctl.Ask(ctx, ctl.Path(e.sock()))
}

// awaitReady waits until all agents are ready and returns the status. If they do not
// get ready in time, it fails the episode and returns nil.
func (e *episode) awaitReady(timeout time.Duration) (r *ctl.Report) {
	var why string
	if !peer.Until(timeout, func() bool {
		var err error
		if r, err = e.status(); err != nil {
			why = err.Error()
			return e.failed()
		}
		why = ""
		for _, a := range r.Agents {
			if a.State != ctl.Ready {
				why += fmt.Sprintf("; agent %s is %s: %s", a.Name, a.State, a.LastError)
			}
		}
		return why == "" || e.failed()
	}) {
		e.fail("after %v%s", timeout, why)
	}
	if e.failed() {
		return nil
	}
	return r
}

// value returns the value of a metric of pmcd's.
func (e *episode) value(cluster, item int) uint32 {
	c, err := pmcdtest.Connect(e.sock())
	if err != nil {
		e.fail("%v", err)
		return 0
	}
	defer c.Close()
	v, err := pmcdtest.Value(c, pdu.NewPMID(domainPmcd, cluster, item))
	if err != nil {
		e.fail("%v", err)
	}
	return v
}
