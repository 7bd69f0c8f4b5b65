package main

import (
	"bytes"
	"fmt"
	"os"
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
		// pid (name) state ppid ...; a name may hold anything.
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		w := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(w) > 1 {
			ppid, _ := strconv.Atoi(string(w[1]))
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
