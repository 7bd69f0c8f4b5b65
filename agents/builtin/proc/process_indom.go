package proc

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A processIndom is an instance domain of processes: all that there are, or some.
type processIndom struct {
	tree      *tree
	threads   bool // of this request: threads are instances, too
	processes map[int32]*process
	list      []*process // in the order of their numbers
	pids      []int32
}

func newProcessIndom(t *tree) *processIndom {
	return &processIndom{tree: t, processes: make(map[int32]*process)}
}

// Each implements pmda.Instances. Names are made for requests that are no
// fetches, see named.
func (s *processIndom) Each(yield func(inst int32, name string, data any) bool) {
	for _, p := range s.list {
		if !yield(p.id, p.name, p) {
			return
		}
	}
}

// pidOf returns the process that a name in /proc is; 0 if it is none.
func pidOf(b []byte) int32 {
	n, ok := sysfile.Uint(b)
	if !ok || n > math.MaxInt32 || b[0] == '0' {
		return 0
	}
	return int32(n)
}

// findAll finds all processes.
func (s *processIndom) findAll() error {
	s.pids = s.pids[:0]
	add := func(name []byte, _ byte) {
		if pid := pidOf(name); pid != 0 {
			s.pids = append(s.pids, pid)
		}
	}
	return s.tree.Path("/proc").List(add)
}

// findGroup finds the processes of a control group, by the directory of it. One
// that is not there has none.
func (s *processIndom) findGroup(dir string) error {
	s.pids = s.pids[:0]
	s.addMembers(dir)
	return nil
}

// findContainer finds the processes of a container, by the directory of its control
// group: those of groups below it are its own, too. "" has none.
//
// C differs: it looks into a group called container below that one, as Podman
// makes it, and nowhere else.
func (s *processIndom) findContainer(dir string) error {
	s.pids = s.pids[:0]
	var dirs []string
	if dir != "" {
		dirs = append(dirs, dir)
	}
	for i := 0; i < len(dirs) && i < maxGroups; i++ {
		s.addMembers(dirs[i])
		add := func(name []byte, typ byte) {
			if name[0] != '.' && (typ == syscall.DT_DIR || typ == syscall.DT_UNKNOWN) {
				dirs = append(dirs, dirs[i]+"/"+string(name))
			}
		}
		_ = s.tree.Path(dirs[i]).List(add) // it may have gone
	}
	return nil
}

// addMembers adds the processes of a control group.
func (s *processIndom) addMembers(dir string) {
	files := []string{"/cgroup.procs"}
	if s.threads {
		files = []string{"/cgroup.threads", "/tasks", "/cgroup.procs"} // v2, v1
	}
	for _, file := range files {
		b, err := s.tree.Path(dir).Str(file).Text(maxPIDs)
		if err != nil {
			continue
		}
		for len(b) > 0 {
			var line []byte
			line, b = sysfile.CutLine(b)
			if pid := pidOf(line); pid != 0 {
				s.pids = append(s.pids, pid)
			}
		}
		return
	}
}

// maxPIDs is the most that is read of a list of processes, in bytes.
const maxPIDs = 32 << 20

// addThreads finds the threads of the processes found.
func (s *processIndom) addThreads() {
	for _, pid := range s.pids[:len(s.pids):len(s.pids)] {
		add := func(name []byte, _ byte) {
			if tid := pidOf(name); tid != 0 && tid != pid {
				s.pids = append(s.pids, tid)
			}
		}
		_ = s.tree.Path("/proc/").Num(pid).Str("/task").List(add) // it may have ended
	}
}

// updateList makes the list of what was found.
func (s *processIndom) updateList() {
	slices.Sort(s.pids)
	s.pids = slices.Compact(s.pids)
	request := s.tree.request
	s.list = s.list[:0]
	for _, pid := range s.pids {
		p := s.processes[pid]
		if p == nil {
			p = &process{processIndom: s, id: pid}
			s.processes[pid] = p
		}
		p.lastSeen = request
		s.list = append(s.list, p)
	}
	if len(s.list) < len(s.processes) {
		for pid, p := range s.processes {
			if p.lastSeen != request {
				delete(s.processes, pid)
			}
		}
		clear(s.list[len(s.list):cap(s.list)])
	}
}

// makeNames makes names of instances if r is a request that needs them: a fetch
// does not.
func (s *processIndom) makeNames(r *pmda.Request) {
	if r.Profile != nil {
		return
	}
	for _, p := range s.list {
		p.instanceName()
	}
}

func (s *processIndom) pmdaInDom(serial int, source *pmda.Source) *pmda.InDom {
	return &pmda.InDom{
		Serial: serial,
		Insts:  s,
		Source: source,
		Spell:  spellPID,
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"pid": i.ID}, nil
		},
	}
}

// spellPID returns the first word of the name of a process for its number.
func spellPID(name string) string {
	if n, ok := sysfile.Uint([]byte(name)); ok && n <= math.MaxInt32 {
		return fmt.Sprintf("%06d", n)
	}
	return name
}

// A runq is proc.runq: how many processes are in which state.
type runq [8]uint64

// Places in a runq, and items of the metrics.
const (
	runnable = iota
	blocked
	sleeping
	stopped
	swapped
	defunct
	unknown
	kernel
)

func (q *runq) count(list []*process) {
	*q = runq{}
	for _, p := range list {
		r := p.record(formatStat)
		state := byte(0)
		if s := r.string(statState); len(s) > 0 {
			state = s[0]
		}
		switch {
		case !r.ok:
			q[unknown]++
		case state == 'Z':
			q[defunct]++
		case r.nums[statVsize] == 0:
			q[swapped]++ // or one of the kernel
		default:
			i := bytes.IndexByte([]byte("RDSTtP"), state)
			q[[]int{unknown, runnable, blocked, sleeping, stopped, stopped, blocked}[i+1]]++
		}
	}
}
