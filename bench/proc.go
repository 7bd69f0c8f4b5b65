package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is a daemon and the processes below it.
type tree struct {
	daemon  int   // pid
	helpers []int // pmcd-root, pmcd-dso: NAME: parts of the daemon
	agents  []int // all others
}

// treeOf finds the processes below pid.
func treeOf(pid int) tree {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		// PID (NAME) STATE PPID; the name may hold anything.
		if w := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])); len(w) > 1 {
			id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			ppid, _ := strconv.Atoi(w[1])
			children[ppid] = append(children[ppid], id)
		}
	}
	t := tree{daemon: pid}
	for todo := children[pid]; len(todo) > 0; todo = todo[1:] {
		id := todo[0]
		todo = append(todo, children[id]...)
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
		if bytes.HasPrefix(args, []byte("pmcd-")) {
			t.helpers = append(t.helpers, id)
		} else {
			t.agents = append(t.agents, id)
		}
	}
	return t
}

// pids returns all processes of the tree.
func (t tree) pids() []int { return slices.Concat([]int{t.daemon}, t.helpers, t.agents) }

// memory returns the sum of a number of all processes, in bytes.
func (t tree) memory(name string) (n int64) {
	for _, pid := range t.pids() {
		n += memoryOf(pid, name)
	}
	return n
}

// A usage is what the processes of a tree have used so far.
type usage struct {
	daemon, all time.Duration       // CPU time of the daemon with its helpers, and of all processes
	switches    map[string][2]int64 // voluntary and involuntary context switches, by thread
}

func (t tree) usage() usage {
	u := usage{switches: map[string][2]int64{}}
	for _, pid := range t.pids() {
		d := cpuTime(pid)
		u.all += d
		if !slices.Contains(t.agents, pid) {
			u.daemon += d
		}
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		for _, path := range threads {
			u.switches[path] = [2]int64{procNumber(path, "voluntary_ctxt_switches"), procNumber(path, "nonvoluntary_ctxt_switches")}
		}
	}
	return u
}

// since returns what was used since an earlier moment. A thread that sleeps makes a voluntary
// context switch, so their number is that of its wake-ups. Those of a thread that has ended are
// not known.
func (u usage) since(before usage) (daemon, all time.Duration, voluntary, involuntary int64) {
	for path, now := range u.switches {
		then := before.switches[path]
		voluntary += now[0] - then[0]
		involuntary += now[1] - then[1]
	}
	return max(0, u.daemon-before.daemon), max(0, u.all-before.all), voluntary, involuntary
}

// cpuTime returns the user and system time of all threads of a process, with those
// that have exited. It is exact to the nanosecond; /proc has hundredths of a second.
// The number of the clock is that of clock_getcpuclockid(3). A process that has
// exited has none.
func cpuTime(pid int) time.Duration {
	const scheduler = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|scheduler, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// procNumber returns the number after a name in a file of /proc.
func procNumber(path, name string) int64 {
	text, _ := os.ReadFile(path)
	_, after, _ := strings.Cut("\n"+string(text), "\n"+name+":")
	if w := strings.Fields(after); len(w) > 0 {
		n, _ := strconv.ParseInt(w[0], 10, 64)
		return n
	}
	return 0
}

// memoryOf returns a number of status or, if its name begins with Pss, of smaps_rollup, in bytes.
func memoryOf(pid int, name string) int64 {
	file := "status"
	if strings.HasPrefix(name, "Pss") {
		file = "smaps_rollup"
	}
	return procNumber(fmt.Sprintf("/proc/%d/%s", pid, file), name) << 10
}

// rss returns the resident memory of a process, in bytes.
func rss(pid int) int64 { return memoryOf(pid, "VmRSS") }

// resetPeak makes the kernel forget VmHWM, the peak of the resident memory of a process
// (proc_pid_clear_refs(5)).
func resetPeak(pid int) {
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// descriptors returns the number of open descriptors of a process.
func descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}
