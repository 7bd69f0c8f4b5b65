package root

import (
	"bytes"
	"os"
	"path"
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
// groups with the same id it returns that of root, and else the first, as pmdaroot
// does, which searches the hierarchy "unified" and then the one of the controller
// memory.
//
// C differs: it searches only these two, and not below user.slice.
func findGroups(mount string) map[string]*group {
	found := make(map[string]*group)
	hierarchies := []string{mount + "/unified", mount + "/memory"}
	if _, err := os.Stat(mount + "/cgroup.procs"); err == nil {
		hierarchies = append(hierarchies, mount) // version 2 only
	}
	for _, dir := range hierarchies {
		w := walker{found: found}
		left := maxGroups
		w.walk(dir, "", false, &left)
		for _, user := range w.users {
			mine := min(maxUserGroups, left)
			left -= mine
			w.walk(dir+user, user, false, &mine)
			left += mine
		}
	}
	return found
}

// A walker visits the groups of a hierarchy.
type walker struct {
	found map[string]*group
	users []string // groups of users, which are visited last
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
func (g *group) frozen(mount string) bool {
	for _, dir := range g.dirs {
		if bytes.Contains(readHead(dir+"/cgroup.events", maxSmall), []byte("frozen 1\n")) {
			return true
		}
	}
	return string(bytes.TrimSpace(readHead(mount+"/freezer"+g.path+"/freezer.state", maxSmall))) == "FROZEN"
}
