package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A privileged place has a pmcd that is started as root, its agents, and the
// user that it becomes.
type privileged struct {
	*pmcdtest.Place
	user string // as in ids
	pid  int
	root int // pid of the root helper
}

// privilegedPlace is where such a pmcd can be started.
func privilegedPlace(t *testing.T) *privileged {
	t.Helper()
	peer.Require(t)
	testutil.NeedRoot(t)
	exe, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	pcp, err := privsep.LookUp("pcp")
	if err != nil {
		t.Fatal(err)
	}
	four := func(n int) string { return strings.TrimSpace(strings.Repeat(" "+strconv.Itoa(n), 4)) }
	p := &privileged{Place: pmcdtest.NewPlace(t, exe)}
	p.user = fmt.Sprintf("uid %s gid %s groups %s", four(pcp.UID), four(pcp.GID), strings.Trim(fmt.Sprint(pcp.Groups), "[]"))
	return p
}

// startPrivilegedFiles is a place with all that startPrivileged starts.
func startPrivilegedFiles(t *testing.T) *privileged {
	t.Helper()
	p := privilegedPlace(t)
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	// A copy, whose mode can be changed. It stays root, and it is a script: its
	// process is a shell at first.
	p.Write("agent", "#!/bin/sh\nexec "+simple+" -d 253 -l "+p.At("log/simple.log")+" -U $(id -un)\n")
	if err := os.Chmod(p.At("agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Write("conf", `pmcd 2 dso pmcd_init /none
simple 253 pipe binary `+p.At("agent")+`
sample 29 dso sample_init /var/lib/pcp/pmdas/sample/pmda_sample.so
proc 3 dso proc_init /nonexistent/pmda_proc.so
`)
	p.Write("pmns", "root { pmcd simple sample proc }\npmcd { numclients 2:0:3 }\nsimple { numfetch 253:0:0 }\nsample { seconds 29:0:2 }\n"+
		"proc { nprocs 3:8:99 psinfo 3:*:* io 3:*:* fd 3:*:* smaps 3:*:* }\n")
	return p
}

func startPrivileged(t *testing.T, env ...string) *privileged {
	t.Helper()
	p := startPrivilegedFiles(t).start(env...)
	p.answers("simple.numfetch", true)
	p.answers("sample.seconds", true)
	p.answers("proc.nprocs", true)
	return p
}

// start starts it, with more in its environment.
func (p *privileged) start(env ...string) *privileged {
	t := p.T
	t.Helper()
	// As few descriptors as agents get that use select.
	cmd := p.Command("-U", "pcp")
	cmd.Env = append(cmd.Env, env...)
	cmd.Args = append([]string{"/bin/sh", "-c", `ulimit -Sn 300; exec "$@"`, "sh"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, pmcdtest.Read(p.At("log/pmcd.log")))
	}
	pid, err := strconv.Atoi(pmcdtest.Read(p.At("run/pmcd.pid")))
	if err != nil {
		t.Fatal(err)
	}
	p.pid = pid
	t.Cleanup(func() {
		syscall.Kill(p.pid, syscall.SIGTERM) // and the rest ends with it
		pmcdtest.AwaitEnd(t, p.pid)
		if t.Failed() {
			t.Log(pmcdtest.Read(p.At("log/pmcd.log")))
		}
	})
	p.root = pmcdtest.Children(p.pid)[roothelper.Name]
	return p
}

// agent returns the process of an agent, which the root helper or pmcd has
// started, by its name in argv[0]; 0 if there is none. A built-in agent may be in the process
// that such agents share.
func (p *privileged) agent(name string) int {
	below := pmcdtest.Children(p.root)
	pid := cmp.Or(below[name], pmcdtest.Children(p.pid)[name])
	if pid == 0 && strings.HasPrefix(name, "pmcd-agent: ") {
		return below[shared.Name]
	}
	return pid
}

// value is what pminfo prints for a metric.
func (p *privileged) value(metric string) string {
	cmd := exec.Command("pminfo", "-h", "unix:"+p.At("run/sock"), "-f", metric)
	cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// answers fails the test unless a metric has a value, or none, in the end.
func (p *privileged) answers(metric string, want bool) {
	p.T.Helper()
	if !peer.Until(peer.Hangs, func() bool { return strings.Contains(p.value(metric), " value ") == want }) {
		p.T.Fatalf("%s, want a value: %v\n%s", metric, want, p.value(metric))
	}
}

// kill kills an agent and waits for its end.
func (p *privileged) kill(name string) {
	p.T.Helper()
	pid := p.agent(name)
	if pid == 0 {
		p.T.Fatalf("no %s among %v and %v", name, pmcdtest.Children(p.root), pmcdtest.Children(p.pid))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		p.T.Fatal(err)
	}
	pmcdtest.AwaitEnd(p.T, pid)
}

// reload has pmcd start what has died.
func (p *privileged) reload() {
	if err := syscall.Kill(p.pid, syscall.SIGHUP); err != nil {
		p.T.Fatal(err)
	}
}

// The users, rights and descriptors of the processes of a daemon that root has started.
func TestPeerPrivileges(t *testing.T) {
	p := startPrivileged(t, "PMCD_RESTART_AGENTS=0") // an agent that is killed stays down until a reload
	const root = "uid 0 0 0 0 gid 0 0 0 0 groups"
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		if got := pmcdtest.IDs(tid); got != p.user {
			t.Errorf("a thread of pmcd is %q, want %q", got, p.user)
		}
		for _, set := range []string{"CapPrm", "CapEff", "CapAmb"} {
			if caps := pmcdtest.ProcStatus(tid, set); strings.Trim(caps, "0") != "" {
				t.Errorf("a thread of pmcd has %s %s", set, caps)
			}
		}
	}
	if len(peer.Descendants(p.pid)) != 4 {
		t.Errorf("below pmcd are %v", peer.Descendants(p.pid))
	}
	agents := pmcdtest.Children(p.root)
	for name, want := range map[string]struct {
		pid  int
		is   string
		argv string
	}{
		"root helper": {p.root, root, "pmcd-root conf pcp"},
		"agent":       {agents["pmdasimple"], root, "/.peers/pmdasimple -d 253"},
		"DSO host":    {agents["pmcd-dso: sample"], p.user, "pmcd-dso: sample 29"},
		"built-in":    {agents[shared.Name], root, "pmcd-agents conf "},
	} {
		got := strings.TrimSpace(strings.TrimSuffix(pmcdtest.IDs(want.pid), " "))
		// The supplementary groups of root are those of the caller.
		if want.is == root {
			got, _, _ = strings.Cut(got, "groups")
			got += "groups"
		}
		if got != want.is {
			t.Errorf("%s is %q, want %q", name, got, want.is)
		}
		if argv := strings.ReplaceAll(pmcdtest.Read(fmt.Sprintf("/proc/%d/cmdline", want.pid)), "\x00", " "); !strings.Contains(argv, want.argv) {
			t.Errorf("%s is called %q, want %q", name, argv, want.argv)
		}
		if text := pmcdtest.Read(fmt.Sprintf("/proc/%d/environ", want.pid)); strings.Contains(text, backgroundVar) {
			t.Errorf("%s has %s in its environment", name, backgroundVar)
		}
		if umask := pmcdtest.ProcStatus(want.pid, "Umask"); umask != "0022" {
			t.Errorf("%s has umask %s", name, umask)
		}
		if wd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", want.pid)); err != nil || wd != p.Dir {
			t.Errorf("%s runs in %s, want %s (%v)", name, wd, p.Dir, err)
		}
	}
	for _, name := range []string{"pmdasimple", "pmcd-dso: sample", shared.Name} {
		pid := agents[name]
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		var open []string
		for _, fd := range fds {
			to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
			to, _, _ = strings.Cut(to, ":[")
			if name == shared.Name && (strings.HasPrefix(to, "anon_inode") || strings.HasPrefix(to, "/sys/fs/cgroup/cpu")) {
				continue // the Go runtime's
			}
			open = append(open, fd.Name()+" "+strings.TrimPrefix(to, p.Dir))
		}
		want := []string{"0 pipe", "1 pipe", "2 /log/simple.log"} // it has a log of its own
		if name != "pmdasimple" {
			// What it prints goes to the log, or to pmcd, which writes it there.
			for i := range open {
				open[i] = strings.ReplaceAll(open[i], "/log/pmcd.log", "pipe")
			}
			want = []string{"0 /dev/null", "1 pipe", "2 pipe", "3 pipe", "4 pipe"}
		}
		if name == shared.Name { // the runtime decides on numbers, and takes all the descriptors that it may
			for i := range open {
				_, open[i], _ = strings.Cut(open[i], " ")
			}
			slices.Sort(open)
			// The log twice, the socket of the root helper, and three pipes of the agent.
			want = []string{"/dev/null", "pipe", "pipe", "pipe", "pipe", "pipe", "socket"}
			if !slices.Equal(open, want) {
				t.Errorf("%s has open %q, want %q", name, open, want)
			}
			continue
		}
		if !slices.Equal(open, want) {
			t.Errorf("%s has open %q, want %q", name, open, want)
		}
		if limits := pmcdtest.Read(fmt.Sprintf("/proc/%d/limits", pid)); !strings.Contains(limits, "Max open files            300 ") {
			t.Errorf("%s has the limits\n%s", name, limits)
		}
	}
	for pid, want := range map[int]string{p.root: roothelper.Name, agents[shared.Name]: shared.Name} {
		if comm := pmcdtest.Read(fmt.Sprintf("/proc/%d/comm", pid)); comm != want+"\n" {
			t.Errorf("process %d is called %q, want %q", pid, comm, want)
		}
	}
	// What is for pmcd does not end the root helper.
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		syscall.Kill(p.root, sig)
	}
	syscall.Kill(agents[shared.Name], syscall.SIGHUP)
	p.answers("proc.nprocs", true)
	if now := pmcdtest.Children(p.root); now[shared.Name] != agents[shared.Name] {
		t.Errorf("a SIGHUP ends %v", agents)
	}

	// Both can be started again, with the same rights.
	for metric, name := range map[string]string{"simple.numfetch": "pmdasimple", "sample.seconds": "pmcd-dso: sample", "proc.nprocs": "pmcd-agent: proc"} {
		before := pmcdtest.IDs(p.agent(name))
		p.kill(name)
		p.answers(metric, false)
		p.reload()
		p.answers(metric, true)
		if after := pmcdtest.IDs(p.agent(name)); after != before {
			t.Errorf("%s was %s, and is %s", name, before, after)
		}
	}
}

// What a client sees of a process of another user: all of it if the client is root,
// what every user may see if it is another user, and nothing if pmcd does not know its
// user.
func TestPeerProcessRights(t *testing.T) {
	p := startPrivileged(t)
	inLog := regexp.MustCompile(`(?m)^ +ok +\d+ +(\d+) `)
	var port []string
	testutil.Eventually(t, "the log has the port", func() bool { // clients are served before
		port = inLog.FindStringSubmatch(pmcdtest.Read(p.At("log/pmcd.log")))
		return port != nil
	})
	value := func(uid uint32, host, metric string) string {
		cmd := exec.Command("pminfo", "-h", host, "-f", metric)
		cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, fmt.Sprintf("inst [%d or ", p.pid)) || strings.Contains(line, "ermission") {
				return line
			}
		}
		return ""
	}
	const nobody = 65534
	socket := "unix:" + p.At("run/sock")
	for _, metric := range []string{"proc.io.rchar", "proc.fd.count", "proc.smaps.rss"} {
		if got := value(0, socket, metric); !strings.Contains(got, " value ") {
			t.Errorf("%s for root is %q", metric, got)
		}
		if got := value(nobody, socket, metric); got != "" {
			t.Errorf("%s for another user is %q", metric, got)
		}
		if got := value(0, "127.0.0.1:"+port[1], metric); !strings.Contains(got, "No permission") {
			t.Errorf("%s over TCP is %q", metric, got)
		}
	}
	if got := value(nobody, socket, "proc.psinfo.utime"); !strings.Contains(got, " value ") {
		t.Errorf("proc.psinfo.utime for another user is %q", got)
	}
}

// When the daemon ends, even by SIGKILL, all its processes end.
func TestPeerRootHelperEnds(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		p := startPrivileged(t)
		below := peer.Descendants(p.pid)
		if err := syscall.Kill(p.pid, sig); err != nil {
			t.Fatal(err)
		}
		pmcdtest.AwaitEnd(t, p.pid)
		for _, b := range below {
			if !peer.Until(peer.Hangs, func() bool { return !b.Alive() }) {
				t.Errorf("%v: %s, process %d, still runs", sig, b.Name, b.PID)
			}
		}
		if p.Exists("run/pmcd.pid") != (sig == syscall.SIGKILL) {
			t.Errorf("%v: the PID file is there: %v", sig, p.Exists("run/pmcd.pid"))
		}
	}
}

// At its end pmcd logs what its user may not do any more, and ends as usual.
func TestPeerNoRightsAtTheEnd(t *testing.T) {
	p := startPrivileged(t)
	if err := os.Chmod(p.At("run"), 0o755); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(p.pid, syscall.SIGTERM)
	pmcdtest.AwaitEnd(t, p.pid)
	log := pmcdtest.Read(p.At("log/pmcd.log"))
	for _, want := range []string{"Warning: cannot remove " + p.At("run/sock"), "Warning: cannot remove PID file: ", "pmcd Shutdown", "\nLog finished "} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not have %q", want)
		}
	}
}
