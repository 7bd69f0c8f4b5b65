package main

import (
	"bytes"
	"fmt"
	"os"
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
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		id, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		if w := statFields(id); len(w) > 1 {
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

// statFields returns the fields of /proc/PID/stat from the third, the state; the fourth
// is the parent. A process that has exited has none.
func statFields(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The second, the name in parentheses, may hold anything.
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

// pids returns all processes of the tree.
func (t tree) pids() []int { return slices.Concat([]int{t.daemon}, t.helpers, t.agents) }

// cpu returns the CPU time of the daemon with its helpers, and of all processes of
// the tree.
func (t tree) cpu() (daemon, all time.Duration) {
	daemon = cpuTime(t.daemon)
	for _, id := range t.helpers {
		daemon += cpuTime(id)
	}
	all = daemon
	for _, id := range t.agents {
		all += cpuTime(id)
	}
	return daemon, all
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

// busyTime returns the CPU time of all processes of the host and of the kernel, to the
// hundredth of a second.
func busyTime() (d time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal guest guest_nice; user and
	// nice have those of guests.
	for i, w := range strings.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			n, _ := strconv.ParseInt(w, 10, 64)
			d += time.Duration(n) * (time.Second / 100)
		}
	}
	return d
}

// rss returns the resident memory of a process, in bytes.
func rss(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nVmRSS:")
	kb, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n << 10
}

// descriptors returns the number of open descriptors of a process.
func descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}
