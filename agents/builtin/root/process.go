package root

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
)

// A procfs reads /proc.
type procfs struct {
	dir string
	// One for what users can make block, and one for what only root's containers can:
	// users who have used up the first do not affect the second.
	guard, rootGuard *guard

	maxMonitors int // maxMonitors, except in tests

	// Processes that are not conmon, and those whose memory did not reply, so that
	// each is looked at once a minute at most.
	others map[int]bool
	// Users of processes whose memory did not reply. In that minute, no other monitor
	// of theirs is looked at, and if they are many, none of any user: each takes a second.
	blocked  map[int]bool
	lookedAt time.Time // when others and blocked were last cleared
}

// maxBlocked is how many users may make the agent wait in a minute. A user can have many
// user ids.
const maxBlocked = 5

// guardOf returns the guard for what a container, or a process of a user, can make block.
func (p *procfs) guardOf(ofUser bool) *guard {
	if ofUser {
		return p.guard
	}
	return p.rootGuard
}

func newProcfs(dir string) *procfs {
	return &procfs{dir: dir, guard: newGuard(), rootGuard: newGuard(), maxMonitors: maxMonitors, blocked: make(map[int]bool)}
}

func (p *procfs) path(pid int, name string) string {
	return filepath.Join(p.dir, strconv.Itoa(pid), name)
}

// exists reports whether a process exists.
func (p *procfs) exists(pid int) bool {
	if pid <= 0 {
		return false
	}
	_, err := os.Stat(p.path(pid, ""))
	return err == nil
}

// A process is what /proc/PID/status says about one.
type process struct {
	parent, uid int
	// inside is the process id in the innermost name space, depth the number of name
	// spaces that the process is in.
	inside, depth int
}

// status reads /proc/PID/status. ok is false if there is no such process.
func (p *procfs) status(pid int) (s process, ok bool) {
	for line := range bytes.Lines(readHead(p.path(pid, "status"), maxSmall)) {
		key, value, _ := strings.Cut(string(line), ":")
		words := strings.Fields(value)
		if len(words) == 0 {
			continue
		}
		switch key {
		case "PPid":
			s.parent, _ = strconv.Atoi(words[0])
			ok = true
		case "Uid":
			s.uid, _ = strconv.Atoi(words[0])
		case "NSpid":
			s.depth = len(words)
			s.inside, _ = strconv.Atoi(words[len(words)-1])
		}
	}
	return s, ok
}

// first returns the first process of a container among the processes of its control
// group: the one that is process 1 of its name space, and if there is none, because the
// container has the name space of the host, the one whose parent is not in the group; 0
// without any. Of maxProcs processes or more, process 1 may not be among pids, but all others
// of its name space descend from it.
func (p *procfs) first(pids []int) (first int) {
	in := make(map[int]bool, len(pids))
	for _, pid := range pids {
		in[pid] = true
	}
	depth, outside := 0, 0
	incomplete := len(pids) >= maxProcs
	for i := 0; i < len(pids); i++ {
		pid := pids[i]
		s, ok := p.status(pid)
		switch {
		case !ok:
		case s.inside == 1 && s.depth > 1:
			if first == 0 || s.depth < depth { // deeper ones are of containers in the container
				first, depth = pid, s.depth
			}
		case outside == 0 && !in[s.parent]:
			outside = pid
		}
		if incomplete && ok && s.depth > 1 && !in[s.parent] && len(pids) < 2*maxProcs {
			if parent, _ := p.status(s.parent); parent.depth == s.depth {
				in[s.parent] = true
				pids = append(pids, s.parent)
			}
		}
	}
	if first == 0 {
		first = outside
	}
	return first
}

// A monitor is a process conmon, the parent of each container of Podman and CRI-O.
type monitor struct {
	id, name string
	uid      int
}

// monitorOf returns the monitor that is the process pid. ok is false if it is none.
func (p *procfs) monitorOf(pid int) (m monitor, ok bool) {
	if string(bytes.TrimSpace(readHead(p.path(pid, "comm"), 64))) != "conmon" {
		return m, false
	}
	s, there := p.status(pid)
	ofUser := s.uid != 0
	if !there || p.blocked[s.uid] || ofUser && len(p.blocked) >= maxBlocked {
		return m, false
	}
	// The process may be a user's, which can make a read of its memory block.
	b, err := guarded(p.guardOf(ofUser), func() ([]byte, error) { return readHead(p.path(pid, "cmdline"), maxSmall), nil })
	if err != nil {
		p.blocked[s.uid] = true
		return m, false
	}
	m, ok = parseMonitor(strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00"))
	m.uid = s.uid
	return m, ok
}

// parseMonitor parses the command line of conmon(8). A user can start a process with
// any command line, so the result says nothing about containers of others.
func parseMonitor(argv []string) (m monitor, ok bool) {
	if path.Base(argv[0]) != "conmon" {
		return m, false
	}
	for i := 1; i+1 < len(argv); i++ {
		switch argv[i] {
		case "-c", "--cid":
			i++
			m.id = argv[i]
		case "-n", "--name":
			i++
			m.name = argv[i]
		case "--exit-command-arg", "--runtime-arg", "--runtime-opt":
			i++
		case "-e", "--exec", "--exec-attach", "--exec-process-spec":
			return m, false // it is for a further process in the container
		}
	}
	if !cgroups.IsName(m.name) {
		m.name = ""
	}
	return m, cgroups.IsID(m.id)
}

// maxMonitors is the number of containers of root that are found by their monitors, and of users.
const maxMonitors = 1024

// monitored returns the first processes of the containers of users that have a monitor,
// by id: control groups do not show those of a user without groups.
func (p *procfs) monitored() map[string]monitored {
	found := make(map[string]monitored)
	if now := time.Now(); now.Sub(p.lookedAt) > time.Minute {
		p.others, p.blocked, p.lookedAt = make(map[int]bool), make(map[int]bool), now
	}
	n := make(map[bool]int) // of found, by whether they are of users
	kept := make(map[int]bool, len(p.others))
	defer func() { p.others = kept }()
	for _, e := range readNames(p.dir, 1<<20) {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p.others[pid] {
			kept[pid] = true
			continue
		}
		m, ok := p.monitorOf(pid)
		if !ok {
			kept[pid] = true
			continue
		}
		child := p.child(pid)
		ofUser := m.uid != 0
		old, ok := found[m.id]
		switch known := ok && (old.uid != 0) == ofUser; {
		case child == 0, ok && old.uid == 0, !known && n[ofUser] == p.maxMonitors:
			continue
		case !known:
			n[ofUser]++
			if ok { // a user's has the id of this one
				n[true]--
			}
		}
		found[m.id] = monitored{m, child}
	}
	return found
}

type monitored struct {
	monitor
	pid int // of the first process of the container
}

// child returns the child of a monitor that is process 1 of a name space, or else the
// first; 0 if there is none.
func (p *procfs) child(pid int) int {
	children := strings.Fields(string(readHead(p.path(pid, "task/"+strconv.Itoa(pid)+"/children"), maxSmall)))
	var pids []int
	for _, c := range children[:min(len(children), 16)] {
		if n, err := strconv.Atoi(c); err == nil {
			pids = append(pids, n)
		}
	}
	return p.first(pids)
}

// sameNamespace reports whether two processes share a name space of a kind, such as
// "uts".
func (p *procfs) sameNamespace(kind string, pid int) (bool, error) {
	theirs, err := os.Readlink(p.path(pid, "ns/"+kind))
	if err != nil {
		return false, err
	}
	ours, err := os.Readlink("/proc/self/ns/" + kind)
	return err == nil && ours == theirs, nil
}

// groupsOf returns the paths of the control groups of a process.
func (p *procfs) groupsOf(pid int) (paths []string) {
	for line := range strings.Lines(string(readHead(p.path(pid, "cgroup"), maxSmall))) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(f) == 3 {
			paths = append(paths, f[2])
		}
	}
	return paths
}
