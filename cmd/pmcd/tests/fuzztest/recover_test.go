package fuzztest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A snapshot is what pmcd uses while it is idle.
type snapshot struct {
	clients     int
	goroutines  int
	descriptors int
	rootFDs     int // of the root helper
	inUse       int // pmcd.datasize, KiB
	rss         int // KiB
}

// How much more memory than before may be in use. Pools of buffers are released by
// two garbage collections, but the race detector keeps more than it did.
const (
	moreInUse = 16 << 10  // KiB
	moreRSS   = 256 << 10 // KiB

	// mostRSS is how much may be resident at any time.
	mostRSS = 512 << 10 // KiB
)

// exceeds returns what is more than it was, "" if nothing is.
func (s snapshot) exceeds(was snapshot) string {
	var more []string
	for _, n := range []struct {
		what     string
		now, was int
	}{
		{"clients", s.clients, was.clients},
		{"goroutines", s.goroutines, was.goroutines},
		{"descriptors", s.descriptors, was.descriptors},
		{"descriptors of the root helper", s.rootFDs, was.rootFDs},
		{"KiB in use", s.inUse, was.inUse + moreInUse},
		{"KiB resident", s.rss, was.rss + moreRSS},
	} {
		if n.now > n.was {
			more = append(more, fmt.Sprintf("%d %s, not %d", n.now, n.what, n.was))
		}
	}
	return strings.Join(more, "; ")
}

// idles are the snapshots before the faults: with the process for clients of
// containers, which ends a minute after the last of them, and without it.
type idles map[bool]snapshot

// take returns a snapshot, and whether there is a process for containers. The checker
// must be paused.
func (e *episode) take() (s snapshot, boxed bool) {
	pid := e.cmd.Process.Pid
	s.inUse = int(e.value(0, 1))
	r, err := e.status()
	if err != nil {
		e.fail("status: %v", err)
		return s, false
	}
	s.clients, s.goroutines = len(r.Clients), r.Goroutines
	if s.descriptors, err = peer.FDs(pid); err != nil {
		e.fail("%v", err)
	}
	if e.root != 0 {
		if s.rootFDs, err = peer.FDs(e.root); err != nil {
			e.fail("%v", err)
		}
	}
	s.rss = rss(pid)
	return s, pmcdtest.Children(e.root)["pmcd-agent: linux"] != 0
}

// rss returns the resident memory of a process in KiB.
func rss(pid int) int {
	kib, _, _ := strings.Cut(pmcdtest.ProcStatus(pid, "VmRSS"), " ")
	n, _ := strconv.Atoi(kib)
	return n
}

// warmUp has pmcd do all things once, and returns what it uses when it is idle.
func (e *episode) warmUp(c *checker) idles {
	client, err := pmcdtest.Connect(e.sock())
	if err != nil {
		e.fail("%v", err)
		return nil
	}
	pmcdtest.FetchAll(e.T, client)
	client.Close()
	e.cmd.Process.Signal(syscall.SIGHUP)
	if !peer.Until(peer.Hangs, func() bool { return e.value(0, 22) > 0 || e.failed() }) { // pmcd.sighups
		e.fail("pmcd does not reload")
	}
	idle := make(idles)
	measure := func() {
		c.requests.Lock()
		defer c.requests.Unlock()
		// Connections that end, and reloads, take a moment.
		var before snapshot
		peer.Until(peer.Hangs, func() bool {
			s, boxed := e.take()
			if e.failed() {
				return true
			}
			same := s.clients == checkedConnections && s.goroutines == before.goroutines && s.descriptors == before.descriptors
			before, idle[boxed] = s, s
			return same
		})
		e.journal.add("idle: %+v", idle)
	}
	measure()
	if e.privileged {
		e.useContainer()
		measure()
	}
	return idle
}

// useContainer has a client choose a container and fetch, so that the process for
// containers is started.
func (e *episode) useContainer() {
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	defer cancel()
	client, err := pmapi.Dial(ctx, "unix:"+e.sock()+"?container="+boxName, pmapi.Options{})
	if err != nil {
		e.fail("%v", err)
		return
	}
	defer client.Close()
	var r pmapi.Result
	if err := client.Fetch(ctx, []pdu.PMID{pdu.NewPMID(domainLinux, 12, 4)}, &r); err != nil { // pmda.uname's host
		e.fail("in a container: %v", err)
	}
}

// recover undoes the faults. Then all agents must become ready, and pmcd must use no
// more than before.
func (e *episode) recover(c *checker, idle idles) {
	if e.failed() {
		return
	}
	g := e.random("recover")
	e.restoreFiles()
	e.cmd.Process.Signal(syscall.SIGHUP)
	e.awaitAgents()
	e.unfence()
	if e.long && g.IntN(4) == 0 {
		// Without a further reload the longest delay before a restart is 60 s.
		e.journal.add("waits for restarts")
		e.awaitReady(lateGrace + 60*time.Second + handshakeTimeout + 20*time.Second)
	} else {
		e.journal.add("reloads until all agents are ready")
		last := time.Now()
		if !peer.Until(60*time.Second, func() bool {
			r, err := e.status()
			ready := err == nil && !slices.ContainsFunc(r.Agents, func(a ctl.Agent) bool { return a.State != ctl.Ready })
			if !ready && time.Since(last) > 2*time.Second {
				last = time.Now()
				e.cmd.Process.Signal(syscall.SIGHUP)
			}
			return ready || e.failed()
		}) {
			e.awaitReady(0) // says which one is not
		}
	}
	if e.failed() {
		return
	}
	if n := e.peak.Load(); n > mostRSS {
		e.fail("%d KiB were resident", n)
		return
	}
	c.requests.Lock()
	defer c.requests.Unlock()
	var why string
	if !peer.Until(60*time.Second, func() bool {
		now, boxed := e.take()
		was, ok := idle[boxed]
		if !ok { // it ended while it was measured
			was = idle[!boxed]
		}
		why = now.exceeds(was)
		return why == "" || e.failed()
	}) {
		e.fail("idle again, pmcd uses more than before: %s", why)
	}
}

// awaitAgents waits until pmcd has all agents of the files that it was started with.
func (e *episode) awaitAgents() {
	var got string
	if !peer.Until(peer.Hangs, func() bool {
		r, err := e.status()
		got = fmt.Sprintf("%+v, %v", r, err)
		return err == nil && len(r.Agents) == len(e.confLines()) || e.failed()
	}) {
		e.fail("pmcd does not use the files that were restored: %s", got)
	}
}

// unfence undoes what clients have stored in pmcd's metrics, as far as the agents are
// there. Only root may store them.
func (e *episode) unfence() {
	if !e.isRoot() {
		return
	}
	client, err := pmcdtest.Connect(e.sock())
	if err != nil {
		e.fail("%v", err)
		return
	}
	defer client.Close()
	store := func(id pdu.PMID, inst int32, word uint32) {
		err := client.Store(context.Background(), pmapi.NewValueSet(id, inst, pmapi.ValueOf(word)))
		if err != nil && !errors.Is(err, pdu.ErrnoInst) {
			e.fail("store: %v", err)
		}
	}
	store(pdu.NewPMID(domainPmcd, 0, 4), pdu.NoInst, uint32(requestTimeout.Seconds()))
	for d := domainLiar; d <= domainExternal; d++ {
		store(pdu.NewPMID(domainPmcd, 4, 2), int32(d), 0)
	}
}
