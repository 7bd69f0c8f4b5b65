package compare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A Daemon is what a pmcd of this host and its agents use.
type Daemon struct {
	CPU       float64   `json:"cpu"` // part of one CPU
	Memory    int64     `json:"memory_kb"`
	Processes []Process `json:"processes"`

	at time.Time
}

// A Process is pmcd, or a descendant of it.
type Process struct {
	PID    int     `json:"pid"`
	Name   string  `json:"name"`
	CPU    float64 `json:"cpu"`
	Memory int64   `json:"memory_kb"`

	ticks uint64
}

// findDaemon returns the process of the pmcd of this host, or 0: the one that its own metric
// or PCP's pid file names, if that is a pmcd.
func findDaemon(metric string) int {
	dir := os.Getenv("PCP_RUN_DIR")
	if dir == "" {
		dir = "/run/pcp"
	}
	file, _ := regular.ReadFile(filepath.Join(dir, "pmcd.pid"), 64)
	for _, text := range []string{metric, strings.TrimSpace(string(file))} {
		pid, err := strconv.Atoi(text)
		if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && bytes.HasPrefix(comm, []byte("pmcd")) {
			return pid
		}
	}
	return 0
}

// readDaemon reads what a pmcd and its descendants have used so far. It returns nil if that
// cannot be had.
func readDaemon(pid int) *Daemon {
	if pid == 0 {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	children := make(map[int][]Process)
	var self *Process
	for _, dir := range dirs {
		p, parent, ok := readProcess(dir)
		if ok && p.PID == pid {
			self = &p
		} else if ok {
			children[parent] = append(children[parent], p)
		}
	}
	if self == nil {
		return nil
	}
	d := &Daemon{at: time.Now()}
	todo := []Process{*self}
	for len(todo) > 0 {
		p := todo[0]
		todo = append(todo[1:], children[p.PID]...)
		delete(children, p.PID)
		p.Memory = memory(p.PID)
		d.Memory += p.Memory
		d.Processes = append(d.Processes, p)
	}
	return d
}

// readProcess reads a process of /proc (proc(5)).
func readProcess(dir string) (p Process, parent int, ok bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, 0, false
	}
	// The name is in parentheses, and may have any character in it.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return p, 0, false
	}
	p.Name = string(stat[open+1 : end])
	fields := strings.Fields(string(stat[end+1:]))
	const parentField, utime, stime = 1, 11, 12
	if len(fields) <= stime {
		return p, 0, false
	}
	p.PID, _ = strconv.Atoi(filepath.Base(dir))
	parent, _ = strconv.Atoi(fields[parentField])
	user, _ := strconv.ParseUint(fields[utime], 10, 64)
	system, _ := strconv.ParseUint(fields[stime], 10, 64)
	p.ticks = user + system
	return p, parent, true
}

// memory returns the anonymous memory of a process in KiB: what it shares with others counts in
// part, and files that it maps, such as its program, do not. Without the right to see that it
// is the anonymous part of the resident set.
func memory(pid int) int64 {
	for _, from := range [][2]string{{"smaps_rollup", "Pss_Anon:"}, {"status", "RssAnon:"}} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, from[0]))
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, from[1]); ok {
				kb, _ := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
				return kb
			}
		}
	}
	return 0
}

// until returns what was used between two times. Either may be nil.
func (d *Daemon) until(later *Daemon) *Daemon {
	if d == nil || later == nil {
		return nil
	}
	before := make(map[int]uint64)
	for _, p := range d.Processes {
		before[p.PID] = p.ticks
	}
	const perSecond = 100 // USER_HZ
	seconds := later.at.Sub(d.at).Seconds()
	for i := range later.Processes {
		p := &later.Processes[i]
		if used := p.ticks - before[p.PID]; p.ticks >= before[p.PID] && seconds > 0 {
			p.CPU = float64(used) / perSecond / seconds
			later.CPU += p.CPU
		}
	}
	return later
}
