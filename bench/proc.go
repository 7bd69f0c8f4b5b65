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

// cpu is the time that the daemon and its helpers, and all processes of the
// tree, have computed.
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

// cpuTime is user and system time of all threads of a process, those that have
// ended too, to the nanosecond; /proc has hundredths of a second. The number of
// the clock is what clock_getcpuclockid(3) returns. A process that has ended
// has none.
func cpuTime(pid int) time.Duration {
	const scheduler = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(^int32(pid)<<3|scheduler, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// rss is the resident memory of a process, in bytes.
func rss(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nVmRSS:")
	kb, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.ParseInt(kb, 10, 64)
	return n << 10
}

// descriptors is how many a process has open.
func descriptors(pid int) int {
	fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(fds)
}
