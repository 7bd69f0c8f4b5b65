package peer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Proc is a process, told from a later one with the same id by its start time.
type Proc struct {
	PID   int
	Name  string // command name as the kernel has it, at most 15 bytes
	start string
}

// readProc returns the process and its parent's id.
func readProc(pid int) (p Proc, ppid int, alive bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Proc{}, 0, false
	}
	// pid (name) state ppid ... with the start time in field 22; a name may
	// hold anything, so count from the last parenthesis.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	w := bytes.Fields(b[end+1:])
	if open < 0 || len(w) < 20 {
		return Proc{}, 0, false
	}
	ppid, _ = strconv.Atoi(string(w[1]))
	return Proc{PID: pid, Name: string(b[open+1 : end]), start: string(w[19])}, ppid, w[0][0] != 'Z'
}

// Alive reports whether the process still runs; a zombie does not.
func (p Proc) Alive() bool {
	now, _, alive := readProc(p.PID)
	return alive && now.start == p.start
}

// Descendants are the processes below pid: the agents of a daemon, and what
// they started.
func Descendants(pid int) []Proc {
	es, _ := os.ReadDir("/proc")
	children := map[int][]Proc{}
	for _, e := range es {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ppid, alive := readProc(id); alive {
			children[ppid] = append(children[ppid], p)
		}
	}
	var all []Proc
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			all = append(all, p)
			todo = append(todo, p.PID)
		}
	}
	return all
}

// FDs is the number of descriptors that process pid has open.
func FDs(pid int) (int, error) {
	es, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return len(es), err
}

// Hangs is how long something may take before a test says that it hangs.
const Hangs = testutil.Hangs

// Until is that of internal/testutil.
func Until(timeout time.Duration, cond func() bool) bool {
	return testutil.Until(timeout, cond)
}

// killLeft ends processes that outlived their daemon and returns them.
func killLeft(ps []Proc) (left []Proc) {
	for _, p := range ps {
		if p.Alive() {
			left = append(left, p)
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	return left
}
