package root

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
)

// A group is the control group of a container.
type group struct {
	id, engine string
	path       string   // in the hierarchy, with a leading slash
	dirs       []string // in the file system: of each hierarchy that has the group
	freezer    string   // the same in the hierarchy of the controller freezer of version 1; "" if there is none
	ofUser     bool
}

// Limits of a search for groups. Users can make groups below those of their sessions.
const (
	maxGroups     = 20000 // directories
	maxUserGroups = 2000  // directories of one user
	maxDepth      = 32
	maxContainers = 4096
	userSlice     = "/user.slice"
)

// findGroups returns the control groups of containers, by id. Below the group of a
// container it does not search: what is there belongs to the container. Of several
// groups with the same id it returns that of root, and else the first: pmdaroot, too,
// searches the hierarchy of version 2 and then the one of the controller memory.
//
// C differs: it knows them only as unified and memory below the mount point, and does not
// search below user.slice.
func findGroups(o Options) map[string]*group {
	found := make(map[string]*group)
	mounts := o.hierarchies()
	freezer := cgroups.Of("freezer", mounts)
	for _, m := range searched(mounts) {
		w := walker{found: found, mounts: mounts}
		left := maxGroups
		w.walk(m.Path, "", false, &left)
		for _, user := range w.users {
			mine := min(maxUserGroups, left)
			left -= mine
			w.walk(m.Path+user, user, false, &mine)
			left += mine
		}
	}
	for _, g := range found {
		if len(freezer) > 0 && freezer[0].Version == 1 {
			g.freezer = freezer[0].Path + g.path
		}
	}
	return found
}

// hierarchies returns the hierarchies of control groups that are mounted. If
// PCP_CGROUP_DIR names a directory, only those below it count, and if there are none, they
// are where pmdaroot expects them.
func (o *Options) hierarchies() []cgroups.Mount {
	mounts := slices.DeleteFunc(cgroups.ParseMounts(readHead(filepath.Join(o.Proc, "mounts"), maxConfig), ""), func(m cgroups.Mount) bool {
		_, err := os.Stat(m.Path)
		return err != nil || o.Cgroup != cgroupDir && m.Path != o.Cgroup && !strings.HasPrefix(m.Path, o.Cgroup+"/")
	})
	if len(mounts) > 0 {
		return mounts
	}
	if _, err := os.Stat(o.Cgroup + "/cgroup.procs"); err == nil {
		return []cgroups.Mount{{Path: o.Cgroup, Version: 2}}
	}
	return []cgroups.Mount{
		{Path: o.Cgroup + "/unified", Version: 2},
		{Path: o.Cgroup + "/memory", Version: 1, Options: []string{"memory"}},
		{Path: o.Cgroup + "/freezer", Version: 1, Options: []string{"freezer"}},
	}
}

// searched returns the hierarchies that have the groups of containers: the one of version 2,
// and of those of version 1, in which engines make the same groups, the one of the
// controller memory or, where the kernel has it switched off, the first.
func searched(mounts []cgroups.Mount) (list []cgroups.Mount) {
	version := func(v int) func(m cgroups.Mount) bool { return func(m cgroups.Mount) bool { return m.Version == v } }
	if i := slices.IndexFunc(mounts, version(2)); i >= 0 {
		list = append(list, mounts[i])
	}
	for _, of := range [][]cgroups.Mount{cgroups.Of("memory", mounts), mounts} {
		if i := slices.IndexFunc(of, version(1)); i >= 0 {
			return append(list, of[i])
		}
	}
	return list
}

// A walker visits the groups of a hierarchy.
type walker struct {
	found  map[string]*group
	mounts []cgroups.Mount
	users  []string // groups of users, which are visited last
}

// walk visits the groups below dir, whose path in the hierarchy is at, but at most left
// of them. ofUser is set if a user has made dir. If dir belongs to a user, the user can
// make groups there.
func (w *walker) walk(dir, at string, ofUser bool, left *int) {
	if *left <= 0 || strings.Count(at, "/") > maxDepth || len(w.found) >= maxContainers {
		return
	}
	*left--
	ofUser = ofUser || !ownedByRoot(dir)
	for _, e := range readNames(dir, *left+1000) {
		if !e.IsDir() {
			continue
		}
		name := e.Name()
		below, inDir := at+"/"+name, dir+"/"+name
		if cgroups.IsMountPoint(inDir, w.mounts) {
			continue
		}
		if at == userSlice {
			w.users = append(w.users, below)
		} else if id, engine := cgroups.Container(path.Base(at), name); id != "" {
			w.add(&group{id: id, engine: engine, path: below, dirs: []string{inDir}, ofUser: ofUser})
		} else {
			w.walk(inDir, below, ofUser, left)
		}
	}
}

// ownedByRoot reports whether a directory belongs to root, or to the user of this
// process.
func ownedByRoot(dir string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(dir, &st) == nil && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

// add adds a group. That of a user does not replace one of root.
func (w *walker) add(g *group) {
	old := w.found[g.id]
	switch {
	case old == nil || old.ofUser && !g.ofUser:
		if old != nil || len(w.found) < maxContainers {
			w.found[g.id] = g
		}
	case old.ofUser == g.ofUser && len(old.dirs) < 3:
		old.dirs = append(old.dirs, g.dirs...)
	}
}

// maxProcs is the number of processes of a container among which the first is looked
// for.
const maxProcs = 256

// procs returns processes of a group and of the groups below it.
func (g *group) procs() (pids []int) {
	for _, dir := range g.dirs { // a hierarchy may have the group, but no process
		if pids = procsBelow(dir); len(pids) > 0 {
			break
		}
	}
	return pids
}

func procsBelow(dir string) (pids []int) {
	const maxDirs = 64
	dirs := []string{dir}
	for n := 0; n < len(dirs) && len(pids) < maxProcs; n++ {
		for line := range bytes.Lines(readHead(dirs[n]+"/cgroup.procs", maxSmall)) {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
			if err == nil && pid > 0 && line[len(line)-1] == '\n' && len(pids) < maxProcs {
				pids = append(pids, pid)
			}
		}
		for _, e := range readNames(dirs[n], 1024) {
			if e.IsDir() && len(dirs) < maxDirs {
				dirs = append(dirs, dirs[n]+"/"+e.Name())
			}
		}
	}
	return pids
}

// frozen reports whether the processes of a group are paused.
func (g *group) frozen() bool {
	for _, dir := range g.dirs {
		if bytes.Contains(readHead(dir+"/cgroup.events", maxSmall), []byte("frozen 1\n")) {
			return true
		}
	}
	return g.freezer != "" && string(bytes.TrimSpace(readHead(g.freezer+"/freezer.state", maxSmall))) == "FROZEN"
}
