package fuzztest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
)

// A fault is something that goes wrong around pmcd. run returns what it has done, for
// the journal.
type fault struct {
	weight int
	run    func(f *faults, g generator) string
}

var faultTable = []fault{
	{40, (*faults).lie},
	{40, (*faults).reload},
	{8, (*faults).changeConf},
	{5, (*faults).changeNames},
	{8, (*faults).kill},
	{4, (*faults).stop},
	{15, (*faults).shortage},
	{3, (*faults).fence},
	{3, (*faults).disconnectExternal},
	{2, (*faults).panics},
	{3, (*faults).askStatus},
}

// faults does one fault after the other.
type faults struct {
	*episode
	ctx   context.Context
	tasks sync.WaitGroup
}

// maxFaultPause is the longest pause between two faults.
const maxFaultPause = 100 * time.Millisecond

// injectFaults does faults until ctx ends, and returns how many there were. At the end no
// process is stopped, and there is no shortage any more.
func (e *episode) injectFaults(ctx context.Context) (n int) {
	f := &faults{episode: e, ctx: ctx}
	defer f.tasks.Wait()
	g := e.random("faults")
	var table []int
	for i, t := range faultTable {
		for range t.weight {
			table = append(table, i)
		}
	}
	for ; ctx.Err() == nil; n++ {
		i, own := pick(g.Rand, table...), g.split()
		e.journal.add("fault %d done: %s", n, faultTable[i].run(f, own))
		f.sleep(time.Duration(g.Int64N(int64(maxFaultPause))))
	}
	return n
}

// sleep waits for d, or until the faults end.
func (f *faults) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
	}
}

// lie asks liars for something that they reply to in a way that makes them late, or has
// them disconnected.
func (f *faults) lie(g generator) string {
	var done []string
	for range 1 + g.IntN(3) {
		how := pick(g.Rand, rareLies()...)
		id := pdu.NewPMID(domainLiar+g.IntN(numLiars), how, g.IntN(1024)|rareMark)
		r := g.requestFor(id)
		c := &client{generator: g.split(), e: f.episode, ctx: f.ctx, name: "fault", unix: true}
		f.tasks.Go(func() {
			if c.dial() != nil {
				return
			}
			defer c.Close()
			defer context.AfterFunc(f.ctx, func() { c.SetDeadline(time.Now()) })()
			if c.handshake() == nil && c.send(r) == nil {
				if bad, ok := c.reply(r).(*finding); ok && f.ctx.Err() == nil {
					f.fail("a request for a liar (%s): %v", lies[how].name, bad)
				}
			}
		})
		done = append(done, fmt.Sprintf("%v for %v: %s", r.Type(), id, lies[how].name))
	}
	if g.IntN(2) == 0 {
		f.sleep(50 * time.Millisecond)
		done = append(done, f.reload(g)) // starts them again
	}
	return strings.Join(done, "; ")
}

// reload has pmcd read its files again, sometimes as often as it can.
func (f *faults) reload(g generator) string {
	n := pick(g.Rand, 1, 1, 1, 1, 1, 1, 1, 20)
	for range n {
		f.cmd.Process.Signal(syscall.SIGHUP)
	}
	return fmt.Sprintf("%d times SIGHUP", n)
}

// changeConf changes pmcd.conf.
func (f *faults) changeConf(g generator) string {
	what := f.episode.changeConf(g)
	if g.IntN(4) > 0 {
		f.reload(g)
	}
	return "pmcd.conf: " + what
}

// changeNames changes the name space.
func (f *faults) changeNames(g generator) string {
	what := f.episode.changeNames(g)
	if g.IntN(4) > 0 {
		f.reload(g)
	}
	return "name space: " + what
}

// processes returns the processes below pmcd that faults may concern.
func (f *faults) processes() (pids []int, names []string) {
	for _, p := range peer.Descendants(f.cmd.Process.Pid) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		args := strings.Split(string(b), "\x00")
		switch {
		case len(args) > 3 && strings.HasSuffix(args[0], "/"+agentName) && args[3] != "honest":
			pids, names = append(pids, p.PID), append(names, args[2])
		case strings.HasPrefix(args[0], "pmcd-agent"):
			pids, names = append(pids, p.PID), append(names, args[0])
		}
	}
	return pids, names
}

// kill ends an agent.
func (f *faults) kill(g generator) string {
	n, sig := g.Uint32(), pick(g.Rand, syscall.SIGKILL, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT)
	pids, names := f.processes()
	if len(pids) == 0 {
		return "kill: no agent"
	}
	i := int(n % uint32(len(pids)))
	syscall.Kill(pids[i], sig)
	return fmt.Sprintf("kill %s: %v", names[i], sig)
}

// stop stops an agent, or the root helper, for some time.
func (f *faults) stop(g generator) string {
	n, helper, d := g.Uint32(), g.IntN(5) == 0, time.Duration(g.Int64N(int64(5*time.Second)))
	pids, names := f.processes()
	if helper && f.root != 0 {
		pids, names, d = []int{f.root}, []string{"root helper"}, d/10
	}
	if len(pids) == 0 {
		return "stop: no agent"
	}
	i := int(n % uint32(len(pids)))
	syscall.Kill(pids[i], syscall.SIGSTOP)
	f.tasks.Go(func() {
		f.sleep(d)
		syscall.Kill(pids[i], syscall.SIGCONT) // it may have ended: then its parent has waited for it, or soon will
	})
	return fmt.Sprintf("stop %s for %v", names[i], d)
}

// stopForGood stops an agent, which pmcd has to kill.
func (e *episode) stopForGood() {
	f := &faults{episode: e}
	pids, names := f.processes()
	for i := range min(1, len(pids)) {
		e.journal.add("stop %s for good", names[i])
		syscall.Kill(pids[i], syscall.SIGSTOP)
	}
}

// shortage leaves pmcd, or the root helper, few descriptors or none for some time, in
// which agents are to be started.
func (f *faults) shortage(g generator) string {
	pid, what := f.cmd.Process.Pid, "pmcd"
	if f.root != 0 && g.IntN(4) == 0 {
		pid, what = f.root, "the root helper"
	}
	limit, err := pmcdtest.SoftLimit(pid, -1)
	if err != nil {
		f.fail("%v", err)
		return "shortage"
	}
	var done []string
	begin := time.Now()
	for range 1 + g.IntN(6) {
		if time.Since(begin) > replyTime/2 { // new clients wait, and each of the steps may be slow
			break
		}
		room := g.IntN(pick(g.Rand, 6, 16))
		if _, err := pmcdtest.SoftLimit(pid, pmcdtest.DescriptorLimit(pid, room)); err != nil {
			f.fail("%v", err)
		}
		done = append(done, fmt.Sprintf("%s has %d descriptors left", what, room), f.kill(g))
		if g.IntN(4) > 0 {
			done = append(done, f.reload(g))
		}
		f.sleep(time.Duration(g.Int64N(int64(200 * time.Millisecond))))
	}
	if _, err := pmcdtest.SoftLimit(pid, limit); err != nil {
		f.fail("%v", err)
	}
	f.reload(g) // pmcd computes from the limit how many clients it accepts
	return strings.Join(append(done, "enough again"), "; ")
}

// fence fences some of the liars for some time.
func (f *faults) fence(g generator) string {
	if !f.isRoot() {
		return "fence: not root"
	}
	var domains []int
	for d := domainLiar; d <= domainExternal; d++ {
		if g.IntN(2) == 0 {
			domains = append(domains, d)
		}
	}
	store := func(on uint32) {
		set := pdu.ValueSet{PMID: pdu.NewPMID(domainPmcd, 4, 2), Format: pdu.FormatInsitu}
		for _, d := range domains {
			set.Values = append(set.Values, pdu.Value{Inst: int32(d), Word: on})
		}
		f.ask(g, request{&pdu.Result{Sets: []pdu.ValueSet{set}}, pdu.TypeError})
	}
	d := time.Duration(g.Int64N(int64(time.Second)))
	store(1)
	f.tasks.Go(func() {
		f.sleep(d)
		store(0)
	})
	return fmt.Sprintf("agents %v are fenced for %v", domains, d)
}

// ask sends a request and waits for the reply for a moment.
func (f *faults) ask(g generator, r request) {
	c := &client{generator: g, e: f.episode, ctx: f.ctx, name: "fault", unix: true}
	if c.dial() != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	if c.handshake() == nil && c.send(r) == nil {
		c.next()
	}
}

// isRoot reports whether pmcd takes the clients of this program for root's.
func (e *episode) isRoot() bool { return os.Geteuid() == 0 }

// disconnectExternal closes the connections of the agent that pmcd does not start.
func (f *faults) disconnectExternal(generator) string {
	f.external.disconnect()
	return "the external agent disconnects"
}

// askStatus asks for the status as pmcdctl does, several times at once. Some do not read
// it.
func (f *faults) askStatus(g generator) string {
	n := 1 + g.IntN(10)
	for range n {
		reads, d := g.IntN(3) > 0, time.Duration(g.Int64N(int64(3*time.Second)))
		f.tasks.Go(func() {
			conn, err := net.Dial("unix", ctl.Path(f.sock()))
			if err != nil {
				return
			}
			defer conn.Close()
			if reads {
				conn.SetDeadline(time.Now().Add(d))
				io.Copy(io.Discard, conn)
			} else {
				f.sleep(d)
			}
		})
	}
	return fmt.Sprintf("%d ask for the status", n)
}

// panics has the Go plugin panic.
func (f *faults) panics(g generator) string {
	f.ask(g, request{&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(domainUnsteady, 0, 1)}}, pdu.TypeResult})
	return "the plugin panics"
}
