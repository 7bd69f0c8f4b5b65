package root

import (
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
)

// A table has the containers of this host. Its methods may be called from any
// goroutine.
type table struct {
	o    Options
	proc *procfs
	now  func() time.Time

	mu      sync.Mutex // guards the following: one goroutine reads the host at a time
	files   files
	list    []*container // is replaced and never written
	readAt  time.Time    // when list was read
	toldErr map[string]string
}

const (
	// maxAge is how old the containers may be that a request at the socket gets. One
	// that names a container which is unknown or does not run looks again, if the
	// containers are older than minAge.
	maxAge = time.Second
	minAge = 100 * time.Millisecond
)

func newTable(o Options) *table {
	return &table{o: o, proc: newProcfs(o.Proc), now: time.Now, toldErr: make(map[string]string)}
}

// containers returns all containers, as of now.
func (t *table) containers() []*container { return t.youngerThan(0) }

// find returns the container that a client names; nil if there is none.
func (t *table) find(name string) *container {
	if c := find(t.youngerThan(maxAge), name); c != nil && t.proc.exists(c.pid) {
		return c
	}
	return find(t.youngerThan(minAge), name)
}

// ofProcess returns the container whose first process is pid, and whether pid is a
// process of a container at all.
func (t *table) ofProcess(pid int) (first *container, any bool) {
	if pid <= 0 {
		return nil, false
	}
	list := t.youngerThan(maxAge)
	for _, c := range list {
		if c.pid == pid {
			return c, true
		}
	}
	for _, p := range t.proc.groupsOf(pid) {
		for at := p; len(at) > 1; at = filepath.Dir(at) {
			if id, _ := cgroups.ContainerAt(at); id != "" {
				for _, c := range list {
					if c.cgroup == at {
						return nil, true
					}
				}
			}
		}
	}
	return nil, false
}

// youngerThan returns all containers, as of age ago or less.
func (t *table) youngerThan(age time.Duration) []*container {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); age == 0 || t.readAt.IsZero() || now.Sub(t.readAt) >= age || now.Before(t.readAt) {
		t.list = t.read()
		t.readAt = t.now()
	}
	return t.list
}

// warn logs why a file of an engine cannot be used, once until the reason changes. The
// caller holds mu.
func (t *table) warn(path string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if t.toldErr[path] == text || len(t.toldErr) > 1000 {
		return
	}
	t.toldErr[path] = text
	if err != nil {
		t.o.Log.Warn("{agent}: a file of a container engine cannot be used: {error}", "error", err)
	}
}

// read reads the host. The caller holds mu.
func (t *table) read() (list []*container) {
	groups := findGroups(t.o)
	monitors := t.proc.monitored()
	defer t.files.forget()
	known := make(map[string]bool)
	add := func(found []*container) {
		for _, c := range found {
			if !known[c.id] && len(list) < maxContainers {
				known[c.id] = true
				list = append(list, c)
			}
		}
	}
	add(t.podman(groups))
	add(t.docker(groups))
	add(t.lxc(groups))
	add(t.others(groups, monitors))
	return list
}

// setState sets the state of a container from its group, nil if it has none. pid is its
// first process as its engine knows it, 0 if it does not run.
func (t *table) setState(c *container, g *group, pid int) {
	if g != nil {
		c.cgroup = g.path
		pids := g.procs()
		// The engine's may be of a process that has ended, or unknown. With many
		// processes, not all are in pids.
		if !slices.Contains(pids, pid) && len(pids) > 0 && (len(pids) < maxProcs || !t.proc.exists(pid)) {
			pid = t.proc.first(pids)
		}
	}
	if !t.proc.exists(pid) {
		return
	}
	c.pid = pid
	if c.state == stopped {
		c.state = running
	}
	if g != nil && c.state == running && g.frozen() {
		c.state = paused
	}
}
