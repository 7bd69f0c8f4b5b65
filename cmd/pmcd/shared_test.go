package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
)

// sharing is a place with two built-in agents that need root's rights and answer.
func sharing(t *testing.T) *privileged {
	t.Helper()
	p := sharingPlace(t)
	p.start()
	p.bothAnswer()
	return p
}

func sharingPlace(t *testing.T) *privileged {
	t.Helper()
	p := privilegedPlace(t)
	p.Write("conf", sharedConf)
	p.Write("pmns", "root { pmcd proc xfs }\npmcd { numclients 2:0:3 }\nproc { nprocs 3:8:99 }\n"+
		"xfs { control }\nxfs.control { reset 11:16:79 }\n")
	return p
}

const sharedConf = "pmcd 2 dso pmcd_init /none\nproc 3 dso proc_init builtin\nxfs 11 dso xfs_init builtin\n"

func (p *privileged) bothAnswer() {
	p.T.Helper()
	p.answers("proc.nprocs", true)
	p.answers("xfs.control.reset", true)
}

// pids returns the processes of agents, as the status says.
func (p *privileged) pids() map[string]int {
	r, _ := p.report()
	pids := make(map[string]int)
	for _, a := range r.Agents {
		if a.PID != 0 && a.State == ctl.Ready {
			pids[a.Name] = a.PID
		}
	}
	return pids
}

// awaitPids waits until the agents proc and xfs have processes as want says.
func (p *privileged) awaitPids(what string, want func(proc, xfs int) bool) {
	p.T.Helper()
	var now map[string]int
	if !peer.Until(peer.Hangs, func() bool {
		now = p.pids()
		return now["proc"] != 0 && now["xfs"] != 0 && want(now["proc"], now["xfs"])
	}) {
		p.T.Fatalf("%s: the processes of agents are %v; those of the root helper are %v", what, now, pmcdtest.Children(p.root))
	}
}

// Built-in agents share a process. If it is killed, they come back in a process each; and
// they leave it and enter it alone.
func TestPeerSharedProcess(t *testing.T) {
	p := sharing(t)
	first := pmcdtest.Children(p.root)[shared.Name]
	p.awaitPids("start", func(proc, xfs int) bool { return proc == first && xfs == first })

	// A line that is removed ends its agent, and no other.
	p.Write("conf", strings.Replace(sharedConf, "xfs", "# xfs", 1))
	p.reload()
	p.answers("xfs.control.reset", false)
	p.answers("proc.nprocs", true)
	p.Write("conf", sharedConf)
	p.reload()
	p.bothAnswer()
	p.awaitPids("reload", func(proc, xfs int) bool { return proc == first && xfs == first })
	if log := pmcdtest.Read(p.At("log/pmcd.log")); strings.Contains(log, "is down") {
		t.Errorf("an agent has failed:\n%s", log)
	}

	// SIGTERM is no failure.
	syscall.Kill(first, syscall.SIGTERM)
	pmcdtest.AwaitEnd(t, first)
	p.bothAnswer()
	p.awaitPids("SIGTERM", func(proc, xfs int) bool { return proc == xfs && proc != first })
	p.logs(`agent "xfs" (dom 11) is down: the process was ended by signal 15 (SIGTERM)`)

	second := p.pids()["proc"]
	p.kill(shared.Name)
	p.bothAnswer()
	p.awaitPids("SIGKILL", func(proc, xfs int) bool { return proc != xfs && proc != second && xfs != second })
	p.logs(fmt.Sprintf("pmcd-root: pmcd-agents(%d) has ended: signal 9 (SIGKILL)", second))
	for _, name := range []string{"pmcd-agent: proc", "pmcd-agent: xfs"} {
		if pmcdtest.Children(p.root)[name] == 0 {
			t.Errorf("%s is not among %v", name, pmcdtest.Children(p.root))
		}
	}
	before := p.pids()
	p.kill("pmcd-agent: xfs")
	p.bothAnswer()
	p.awaitPids("alone", func(proc, xfs int) bool { return proc == before["proc"] && xfs != before["xfs"] })
}

// An agent that runs as root knows the user of pmcd, even if pcp.conf does not have PCP_USER.
func TestPeerStoreByUserOfPmcd(t *testing.T) {
	p := privilegedPlace(t)
	p.Write("conf", "pmcd 2 dso pmcd_init /none\nproc 3 dso proc_init builtin\n")
	p.Write("pmns", "root { pmcd proc }\npmcd { numclients 2:0:3 }\nproc { control }\nproc.control { all }\nproc.control.all { threads 3:10:1 }\n")
	p.start("PCP_USER=")
	const metric = "proc.control.all.threads"
	p.answers(metric, true)
	for _, tt := range []struct{ user, want string }{{"nobody", "value 0"}, {"pcp", "value 1"}} {
		out, _ := exec.Command("runuser", "-u", tt.user, "--", "pmstore", "-h", "unix:"+p.At("run/sock"), metric, "1").CombinedOutput()
		if got := p.value(metric); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s%s, want %s", tt.user, out, got, tt.want)
		}
	}
}

// A log that is not read stops neither the root helper, which warns of PATH at its start, nor its
// agents when their process has failed.
func TestPeerSharedProcessFullLog(t *testing.T) {
	p := sharingPlace(t)
	if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := syscall.Open(p.At("fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fifo)
	fillPipe(fifo)
	cmd := p.Command("-U", "pcp", "-F", "-l", "fifo")
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH")+":"+p.At("run")) // others can write there
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill() // and the rest ends with it
		cmd.Wait()
	}()
	p.pid = cmd.Process.Pid
	p.bothAnswer()
	p.root = pmcdtest.Children(p.pid)[roothelper.Name]
	p.kill(shared.Name)
	p.bothAnswer()
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	pmcdtest.AwaitEnd(t, p.root)
}

// An agent that needs a log or a user of its own has a process of its own.
func TestPeerNotShared(t *testing.T) {
	p := privilegedPlace(t)
	p.Write("conf", "pmcd 2 dso pmcd_init /none\nproc 3 pipe binary /nonexistent/pmdaproc -d 3 -l "+p.At("log/proc.log")+"\nxfs 11 dso xfs_init builtin\n")
	p.Write("pmns", "root { pmcd proc xfs }\npmcd { numclients 2:0:3 }\nproc { nprocs 3:8:99 }\nxfs { control }\nxfs.control { reset 11:16:79 }\n")
	p.start()
	p.bothAnswer()
	below := pmcdtest.Children(p.root)
	p.awaitPids("start", func(proc, xfs int) bool { return proc == below["pmcd-agent: proc"] && xfs == below[shared.Name] })
}
