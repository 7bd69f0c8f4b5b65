package proc

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"syscall"
	"weak"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A processIndom is an instance domain of processes: all, or those of a control
// group, of a container, or of a sampler.
type processIndom struct {
	tree      *tree
	threads   bool // in this request threads are instances, too
	processes map[int32]*process
	list      []*process           // by process id
	scan      uint64               // number of the present list
	all       int                  // length of the last list of all processes
	rows      int                  // of sheets: the length of the list, with those that were removed from it
	sheets    *sheets              // nil between requests
	idle      weak.Pointer[sheets] // the last sheets, which the garbage collector may free between requests
	wanted    uint32               // a bit for each format that this fetch needs
	unused    [numFormats]uint64   // a bit for each field of a format that this fetch does not need

	values map[pdu.PMID]value // of metrics
	pids   []int32            // of all processes, see sortedPIDs
	named  bool               // this request needs names
}

// sheets are those of all formats.
type sheets [numFormats]sheet

// begin sets what a fetch needs.
func (s *processIndom) begin(ids []pdu.PMID) {
	used := ownFields
	for _, id := range ids {
		if v, ok := s.values[id]; ok {
			s.wanted |= 1 << v.format
			used[v.format] |= v.fields
		}
	}
	if s.wanted>>formatMemory&1 != 0 {
		used[formatStatus] |= 1<<statusVmSize | 1<<statusVmRSS
	}
	for i := range used {
		s.unused[i] = ^used[i]
	}
}

// release is called at the end of a request.
func (s *processIndom) release() {
	s.wanted, s.unused, s.sheets = 0, [numFormats]uint64{}, nil
}

func newProcessIndom(t *tree) *processIndom {
	return &processIndom{tree: t, processes: make(map[int32]*process), values: make(map[pdu.PMID]value)}
}

var _ pmda.Finder = (*processIndom)(nil)

// Each implements pmda.Instances. A fetch needs no names.
func (s *processIndom) Each(yield func(inst int32, name string, data any) bool) {
	for _, p := range s.list {
		if !yield(p.id, s.nameOf(p), p) {
			return
		}
	}
}

// Find implements pmda.Finder.
func (s *processIndom) Find(inst int32) (name string, data any, ok bool) {
	i, ok := slices.BinarySearchFunc(s.list, inst, func(p *process, id int32) int { return cmp.Compare(p.id, id) })
	if !ok {
		return "", nil, false
	}
	return s.nameOf(s.list[i]), s.list[i], true
}

// nameOf returns the name of an instance, if this request needs names.
func (s *processIndom) nameOf(p *process) string {
	if !s.named {
		return ""
	}
	return p.instanceName()
}

// pidOf returns the process id that a name in /proc is, 0 if it is not one.
func pidOf(b []byte) int32 {
	n, ok := sysfile.Uint(b)
	if !ok || n > math.MaxInt32 || b[0] == '0' {
		return 0
	}
	return int32(n)
}

// findAll sets pids to all processes.
func (s *processIndom) findAll() error {
	s.pids = s.pids[:0]
	add := func(name []byte, _ byte) {
		if pid := pidOf(name); pid != 0 {
			s.pids = append(s.pids, pid)
		}
	}
	return s.tree.Path("/proc").List(add)
}

// findGroup sets pids to the processes of a control group, which is given by its
// directory. It finds none if the directory does not exist.
func (s *processIndom) findGroup(dir string) {
	s.pids = s.pids[:0]
	s.addMembers(dir)
}

// findContainer sets pids to the processes of a container, which is given by the
// directory of its control group. Processes of groups below it count, too. If dir is
// "" it finds none.
//
// C differs: of the groups below, it reads only one called container, which Podman
// makes.
func (s *processIndom) findContainer(dir string) error {
	s.pids = s.pids[:0]
	var dirs []string
	if dir != "" {
		dirs = append(dirs, dir)
	}
	for i := 0; i < len(dirs) && i < maxGroups; i++ {
		if err := s.tree.ended(); err != nil {
			return err
		}
		s.addMembers(dirs[i])
		add := func(name []byte, typ byte) {
			if name[0] != '.' && (typ == syscall.DT_DIR || typ == syscall.DT_UNKNOWN) {
				dirs = append(dirs, dirs[i]+"/"+string(name))
			}
		}
		_ = s.tree.Path(dirs[i]).List(add) // the group may have been removed
	}
	return nil
}

// addMembers adds the processes, or threads, of a control group to pids.
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

// maxPIDs is the largest number of bytes that are read of a list of processes.
const maxPIDs = 32 << 20

// addThreads adds the threads of the processes in pids to pids.
func (s *processIndom) addThreads() error {
	for _, pid := range s.pids[:len(s.pids):len(s.pids)] {
		if err := s.tree.ended(); err != nil {
			return err
		}
		add := func(name []byte, _ byte) {
			if tid := pidOf(name); tid != 0 && tid != pid {
				s.pids = append(s.pids, tid)
			}
		}
		_ = s.tree.Path("/proc/").Num(pid).Str("/task").List(add) // the process may have ended
	}
	return nil
}

// process returns the process with an id.
func (s *processIndom) process(pid int32) *process {
	p := s.processes[pid]
	if p == nil {
		p = &process{processIndom: s, id: pid}
		s.processes[pid] = p
	}
	return p
}

// sortedPIDs returns pids in ascending order, and each once.
func (s *processIndom) sortedPIDs() []int32 {
	slices.Sort(s.pids)
	s.pids = slices.Compact(s.pids)
	return s.pids
}

// updateList makes the list of processes, for a request; nil is a scan of the sampler. pids are in
// ascending order. After an error some are missing.
func (s *processIndom) updateList(r *pmda.Request, pids []int32) error {
	s.named = r != nil && r.Profile == nil // not in a fetch
	if err := s.updateNamed(pids); err != nil {
		return err
	}
	if len(s.list) < len(s.processes) {
		for pid, p := range s.processes {
			if p.lastSeen != s.scan {
				delete(s.processes, pid)
			}
		}
		clear(s.list[len(s.list):cap(s.list)])
	}
	s.all = len(s.list)
	return nil
}

// updateNamed makes the list of some processes, and keeps the others.
func (s *processIndom) updateNamed(pids []int32) error {
	if s.sheets == nil {
		if s.sheets = s.idle.Value(); s.sheets == nil {
			s.sheets = new(sheets)
			s.idle = weak.Make(s.sheets)
		}
	}
	s.scan++
	s.list = s.list[:0]
	for _, pid := range pids {
		if err := s.tree.ended(); err != nil {
			return err
		}
		p := s.process(pid)
		if p.lastSeen == s.scan {
			continue
		}
		p.lastSeen, p.row = s.scan, len(s.list)
		s.list = append(s.list, p)
	}
	s.rows = len(s.list)
	return nil
}

// tooMany reports whether many more processes are kept than there were: of those that are not in
// a list, some have ended.
func (s *processIndom) tooMany() bool { return len(s.processes) > s.all+1000 }

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

// spellPID returns the first word of the name of an instance, 000007, for a process
// id, 7.
func spellPID(name string) string {
	if n, ok := sysfile.Uint([]byte(name)); ok && n <= math.MaxInt32 {
		return fmt.Sprintf("%06d", n)
	}
	return name
}
