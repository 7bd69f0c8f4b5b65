package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A usage is what a daemon and all processes below it have used so far.
type usage struct {
	cpu     map[int]time.Duration // by process
	ended   time.Duration         // of child processes that have ended
	threads map[string]switches   // by directory in /proc
}

// switches are context switches. A thread that sleeps makes a voluntary one, so their
// number is that of its wake-ups.
type switches struct{ voluntary, involuntary int64 }

// usageOf returns the usage of the daemon pid. CPU time is that of the clocks of the
// processes: schedstat lacks the time since the last tick or switch.
func usageOf(pid int) usage {
	u := usage{cpu: map[int]time.Duration{}, threads: map[string]switches{}}
	for _, id := range treeOf(pid).pids() {
		u.cpu[id] = cpuTime(id)
		u.ended += endedChildren(id)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", id))
		for _, dir := range threads {
			if text, err := os.ReadFile(dir + "/status"); err == nil {
				u.threads[dir] = parseSwitches(string(text))
			}
		}
	}
	return u
}

// endedChildren returns the CPU time of the children of a process for which it has
// waited, to the hundredth of a second.
func endedChildren(pid int) (d time.Duration) {
	if w := statFields(pid); len(w) > 14 {
		for _, ticks := range w[13:15] { // cutime, cstime
			n, _ := strconv.ParseInt(ticks, 10, 64)
			d += time.Duration(n) * (time.Second / 100)
		}
	}
	return d
}

// parseSwitches parses /proc/PID/task/TID/status.
func parseSwitches(text string) (s switches) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch name {
		case "voluntary_ctxt_switches":
			s.voluntary = n
		case "nonvoluntary_ctxt_switches":
			s.involuntary = n
		}
	}
	return s
}

// since returns what was used since an earlier moment: the CPU time, with that of processes
// that have ended meanwhile, and the context switches. Those of a thread that has ended are
// not known.
func (u usage) since(before usage) (cpu time.Duration, s switches) {
	ended := u.ended - before.ended
	for id, d := range before.cpu {
		if _, lives := u.cpu[id]; !lives {
			ended -= d // used before that moment
		}
	}
	cpu = max(0, ended)
	for id, d := range u.cpu {
		cpu += max(0, d-before.cpu[id])
	}
	for dir, now := range u.threads {
		then := before.threads[dir]
		s.voluntary += max(0, now.voluntary-then.voluntary)
		s.involuntary += max(0, now.involuntary-then.involuntary)
	}
	return cpu, s
}
