package root

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Groups are found with version 1, version 2, and both. What is below the group of a
// container is not searched.
func TestFindGroups(t *testing.T) {
	for name, prefix := range map[string]string{"version 1": "memory/", "version 2": "", "both": "unified/"} {
		t.Run(name, func(t *testing.T) {
			root := pmdatest.Tree(t, map[string]string{
				prefix + "cgroup.procs": "",
				prefix + "a/b/docker-" + idA + ".scope/x/libpod-" + idB + "/cgroup.procs":                               "",
				prefix + "user.slice/user-1000.slice/user@1000.service/libpod-" + idC + ".scope/container/cgroup.procs": "",
				prefix + ".hidden/docker-" + idD + ".scope/cgroup.procs":                                                "",
				prefix + "file-" + idE: "",
			})
			found := findGroups(Options{Cgroup: root})
			if len(found) != 2 || found[idA].path != "/a/b/docker-"+idA+".scope" || found[idA].engine != docker {
				t.Fatalf("got %v", found)
			}
			if g := found[idC]; g.path != "/user.slice/user-1000.slice/user@1000.service/libpod-"+idC+".scope" || g.ofUser {
				t.Errorf("got %+v", g)
			}
		})
	}
}

// A user who may make groups does not hide the container of root, however many groups
// the user makes.
func TestGroupsOfUsers(t *testing.T) {
	testutil.NeedRoot(t)
	files := map[string]string{
		"unified/system.slice/docker-" + idA + ".scope/cgroup.procs":                 "1\n",
		"unified/app.slice/docker-" + idA + ".scope/cgroup.procs":                    "2\n", // is visited first
		"unified/app.slice/docker-" + idB + ".scope/cgroup.procs":                    "2\n",
		"unified/user.slice/user-1.slice/mine/docker-" + idA + ".scope/cgroup.procs": "3\n",
	}
	for i := range maxUserGroups + 100 {
		files[fmt.Sprintf("unified/user.slice/user-1.slice/mine/g%d/", i)] = ""
	}
	files["unified/user.slice/user-2.slice/mine/libpod-"+idC+".scope/cgroup.procs"] = "4\n"
	root := pmdatest.Tree(t, files)
	for _, dir := range []string{"app.slice", "user.slice/user-1.slice/mine", "user.slice/user-2.slice/mine"} {
		if err := os.Chown(filepath.Join(root, "unified", dir), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	found := findGroups(Options{Cgroup: root})
	if g := found[idA]; g == nil || g.ofUser || g.path != "/system.slice/docker-"+idA+".scope" || fmt.Sprint(g.procs()) != "[1]" {
		t.Errorf("of root: %+v", g)
	}
	for _, id := range []string{idB, idC} {
		if g := found[id]; g == nil || !g.ofUser {
			t.Errorf("of a user: %+v", g)
		}
	}
}

func TestProcs(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"g/cgroup.procs": "", "g/a/cgroup.procs": "0\n12\nx\n-3\n", "g/a/b/cgroup.procs": "13\n", "g/c/cgroup.procs/": "",
		"empty/cgroup.procs": "", "many/cgroup.procs": strings.Repeat("7\n", 2*maxProcs), "cut/cgroup.procs": strings.Repeat("\n", maxSmall-2) + "123\n",
	})
	g := &group{dirs: []string{root + "/empty", root + "/g"}}
	if got := fmt.Sprint(g.procs()); got != "[12 13]" {
		t.Errorf("got %s", got)
	}
	if n := len((&group{dirs: []string{root + "/many"}}).procs()); n != maxProcs {
		t.Errorf("got %d processes", n)
	}
	if pids := (&group{dirs: []string{root + "/cut"}}).procs(); len(pids) > 0 {
		t.Errorf("a number that is cut: %v", pids)
	}
}

// With version 1 a hierarchy of its own says whether processes are paused.
func TestFrozen(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"unified/x/cgroup.events": "populated 1\nfrozen 0\n", "freezer/x/freezer.state": "FROZEN\n",
		"freezer/y/freezer.state": "THAWED\n", "unified/z/cgroup.events": "frozen 1\n",
	})
	for path, want := range map[string]bool{"/x": true, "/y": false, "/z": true, "/none": false} {
		if got := (&group{dirs: []string{root + "/unified" + path}, freezer: root + "/freezer" + path}).frozen(); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Groups are found in the hierarchies that /proc/mounts names, wherever they are. Those of
// version 1 that are mounted below version 2 are no groups of it.
func TestHierarchies(t *testing.T) {
	docker, frozen := "/docker/"+idA, "/docker/"+idA+"/freezer.state"
	scope := "/system.slice/docker-" + idA + ".scope"
	for name, tt := range map[string]struct {
		mounts string // @ stands for the directory of the tree
		files  []string
		cgroup string // the option
		want   string // path of the group
		paused bool
	}{
		"version 2":              {"cgroup2 @/cg cgroup2 rw", []string{"/cg" + scope}, "", scope, false},
		"version 2 twice":        {"cgroup2 @/cg cgroup2 rw\ncgroup2 @/run cgroup2 rw", []string{"/cg" + scope, "/run" + docker}, "", scope, false},
		"a freezer below it":     {"cgroup2 @/cg cgroup2 rw\nx @/cg/a cgroup rw,freezer", []string{"/cg/a" + docker, "/cg" + scope}, "", scope, false},
		"a freezer with it":      {"cgroup2 @/cg cgroup2 rw\nx @/f cgroup rw,freezer", []string{"/cg" + docker, "/f" + frozen}, "", docker, true},
		"a name beside it":       {"x @/systemd cgroup rw,name=systemd\ncgroup2 @/u cgroup2 rw", []string{"/u" + scope}, "", scope, false},
		"memory elsewhere":       {"x @/n cgroup rw,net_cls\nx @/m\\040m cgroup rw,memory", []string{"/m m" + docker}, "", docker, false},
		"memory beside it":       {"cgroup2 @/u cgroup2 rw\nx @/n cgroup rw,net_cls\nx @/m cgroup rw,memory", []string{"/m" + docker}, "", docker, false},
		"no memory":              {"x @/p cgroup rw,pids\nx @/f cgroup rw,freezer", []string{"/p" + docker, "/f" + frozen}, "", docker, true},
		"below another mount":    {"x @/cg/memory cgroup rw,memory\ncgroup2 @/cg cgroup2 rw", []string{"/cg" + scope}, "", scope, false},
		"PCP_CGROUP_DIR":         {"cgroup2 @/cg cgroup2 rw\ncgroup2 @/host/cg cgroup2 rw", []string{"/cg" + docker, "/host/cg" + scope}, "/host/cg", scope, false},
		"PCP_CGROUP_DIR above":   {"cgroup2 @/cg cgroup2 rw\nx @/host/cg/m cgroup rw,memory", []string{"/cg" + scope, "/host/cg/m" + docker}, "/host/cg", docker, false},
		"PCP_CGROUP_DIR, a tree": {"cgroup2 @/cg cgroup2 rw", []string{"/cg" + scope, "/tree/memory" + docker}, "/tree", docker, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			pmdatest.WriteFile(t, root, "proc/mounts", strings.ReplaceAll(tt.mounts, "@", root)+"\n")
			for _, file := range tt.files {
				if !strings.HasSuffix(file, ".state") {
					file += "/cgroup.procs"
				}
				pmdatest.WriteFile(t, root, file, "FROZEN\n")
			}
			o := Options{Proc: root + "/proc", Cgroup: cgroupDir}
			if tt.cgroup != "" {
				o.Cgroup = root + tt.cgroup
			}
			found := findGroups(o)
			if g := found[idA]; g == nil || len(found) != 1 || g.path != tt.want || g.frozen() != tt.paused {
				t.Errorf("got %+v, want %s", g, tt.want)
			}
		})
	}
}
