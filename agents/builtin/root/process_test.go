package root

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// The first process of a container is process 1 of its own name space, not of one below
// it; in the name space of the host it is the one that another process has started.
func TestFirst(t *testing.T) {
	files := map[string]string{"proc/9/status": "no status\n"}
	addProcess(files, 20, 2, 1, nil)
	addProcess(files, 21, 20, 7, nil)
	addProcess(files, 30, 3, 0, nil)
	addProcess(files, 31, 30, 0, nil)
	files["proc/22/status"] = "PPid:\t21\nNSpid:\t22\t9\t1\n" // of a container in the container
	// Process 1 of many (20) is not among those that are listed; neither is its child 50.
	var many, ofHost []int
	addProcess(files, 50, 20, 50, nil)
	for i := range maxProcs {
		addProcess(files, 1000+i, 50, 1000+i, nil)
		addProcess(files, 2000+i, 30, 0, nil)
		many, ofHost = append(many, 1000+i), append(ofHost, 2000+i)
	}
	p := newProcfs(pmdatest.Tree(t, files) + "/proc")
	for _, tt := range []struct {
		pids []int
		want int
	}{
		{nil, 0}, {[]int{5, 9}, 0}, {[]int{21, 20}, 20}, {[]int{22, 21, 20}, 20}, {[]int{22, 21}, 22}, {[]int{31, 30}, 30}, {[]int{31}, 31}, {[]int{9, 30}, 30},
		{many, 20}, {many[1:], 1001}, {ofHost, 2000},
	} {
		if got := p.first(tt.pids); got != tt.want {
			t.Errorf("%v: got %d, want %d", tt.pids, got, tt.want)
		}
	}
}

func TestParseMonitor(t *testing.T) {
	for _, tt := range []struct {
		argv     string
		id, name string
		ok       bool
	}{
		{"/usr/bin/conmon --api-version 1 -c " + idA + " -u " + idA + " -n web --exit-command-arg -n --exit-command-arg -c", idA, "web", true},
		{"conmon --cid " + idA + " --name web", idA, "web", true},
		{"conmon -c " + idA, idA, "", true},
		{"conmon -c " + idA + " -n a/b", idA, "", true},
		{"conmon -c " + idA + " -n web -e --exec-attach", idA, "web", false}, // podman exec
		{"conmon -c " + idA[1:] + " -n web", idA[1:], "web", false},
		{"conmon -n -c", "", "", false},
		{"conmon -c", "", "", false},
		{"sh -c " + idA, "", "", false},
		{"", "", "", false},
	} {
		m, ok := parseMonitor(strings.Split(tt.argv, " "))
		if ok != tt.ok || ok && (m.id != tt.id || m.name != tt.name) {
			t.Errorf("%s: got %+v, %v", tt.argv, m, ok)
		}
	}
}

// The containers of a user are found by their monitors, with and without control groups.
// They do not replace those of root.
func TestContainersOfUsers(t *testing.T) {
	monitor := func(id, name string) string {
		return strings.ReplaceAll("/usr/bin/conmon -c "+id+" -n "+name+" ", " ", "\x00")
	}
	files := map[string]string{
		"data/containers.json":             `[{"id":"` + idA + `","names":["web"]}]`,
		"run/" + idA + "/userdata/pidfile": "100\n",
		"cgroup/unified/user.slice/user-7.slice/user@7.service/user.slice/libpod-" + idB + ".scope/cgroup.procs": "200\n",
	}
	addProcess(files, 100, 10, 1, nil)
	addProcess(files, 200, 20, 1, nil)
	addProcess(files, 300, 30, 1, nil)
	addProcess(files, 400, 40, 1, nil)
	for i, m := range []struct{ id, name string }{{idA, "stolen"}, {idB, "mine"}, {idC, "free"}, {idA, "again"}, {idD, "gone"}} {
		pid := 10 * (i + 1)
		addProcess(files, pid, 1, 0, map[string]string{"comm": "conmon\n", "cmdline": monitor(m.id, m.name), fmt.Sprintf("task/%d/children", pid): fmt.Sprint(10*pid, " ")})
		files[fmt.Sprintf("proc/%d/status", pid)] = "PPid:\t1\nUid:\t7\t7\t7\t7\n"
	}
	delete(files, "proc/50/task/50/children")
	addProcess(files, 60, 1, 0, map[string]string{"comm": "sh\n", "cmdline": monitor(idE, "sh"), "task/60/children": "100 "})
	root := pmdatest.Tree(t, files)
	table := newTable(options(root))
	var got []string
	for _, c := range table.containers() {
		got = append(got, fmt.Sprintf("%.4s %s %s %d %v", c.id, c.engine, c.name, c.pid, c.ofUser))
	}
	// The group of idB belongs to root here, its monitor does not.
	want := []string{"a1b2 podman web 100 false", "b000 podman  200 false", "c111 podman free 300 true"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(root+"/cgroup/unified/user.slice/user-7.slice/user@7.service", 7, 7); err != nil {
			t.Fatal(err)
		}
		if c := table.find("mine"); c != nil {
			t.Errorf("before the next look: %+v", c)
		}
		table.containers()
		if c := table.find("mine"); c == nil || c.pid != 200 || !c.ofUser {
			t.Errorf("got %+v", c)
		}
	}
	if c := table.find("stolen"); c != nil {
		t.Errorf("the name of a user's process for a container of root: %+v", c)
	}
}

// Processes of users that make reads block cost a limited time, and root's containers are
// found all the same.
func TestBlockedMonitors(t *testing.T) {
	files := make(map[string]string)
	add := func(pid, uid int, id string) {
		cmdline := strings.Join([]string{"conmon", "-c", id, "-n", "name"}, "\x00")
		addProcess(files, pid, 1, 0, map[string]string{"comm": "conmon\n", "cmdline": cmdline, fmt.Sprintf("task/%d/children", pid): fmt.Sprint(pid+1, " ")})
		files[fmt.Sprintf("proc/%d/status", pid)] = fmt.Sprintf("PPid:\t1\nUid:\t%d\t0\t0\t0\n", uid)
		addProcess(files, pid+1, pid, 1, nil)
	}
	for i := range 40 {
		add(100+10*i, 1+i/2, idB) // two of each user
	}
	add(10, 0, idA)
	p := newProcfs(pmdatest.Tree(t, files) + "/proc")
	p.guard = &guard{make(chan struct{}), time.Millisecond} // each waits until it is too late
	for range 2 {
		found := p.monitored()
		if len(found) != 1 || found[idA].pid != 11 {
			t.Errorf("got %v", found)
		}
		if len(p.blocked) != maxBlocked {
			t.Errorf("waited for %d users, want %d", len(p.blocked), maxBlocked)
		}
	}
	p.guard, p.lookedAt = newGuard(), time.Time{} // a minute later
	if found := p.monitored(); len(found) != 2 {
		t.Errorf("got %v", found)
	}
}

// Users with many monitors do not hide containers of root.
func TestManyMonitors(t *testing.T) {
	files := make(map[string]string)
	add := func(pid, uid int) {
		cmdline := fmt.Sprintf("conmon\x00-c\x00%064x\x00", pid)
		addProcess(files, pid, 1, 0, map[string]string{"comm": "conmon\n", "cmdline": cmdline, fmt.Sprintf("task/%d/children", pid): fmt.Sprint(pid+1, " ")})
		files[fmt.Sprintf("proc/%d/status", pid)] = fmt.Sprintf("PPid:\t1\nUid:\t%d\t0\t0\t0\n", uid)
		addProcess(files, pid+1, pid, 1, nil)
	}
	for i := range 8 {
		add(100+10*i, 1)
		add(500+10*i, 0)
	}
	p := newProcfs(pmdatest.Tree(t, files) + "/proc")
	p.maxMonitors = 8
	found := p.monitored()
	for i := range 8 {
		if pid := 500 + 10*i; found[fmt.Sprintf("%064x", pid)].pid != pid+1 {
			t.Errorf("the container of monitor %d of root is missing", pid)
		}
	}
	if len(found) != 16 {
		t.Errorf("%d containers", len(found))
	}
}

// A call that does not return is abandoned, and so are those that cannot begin then.
func TestGuard(t *testing.T) {
	g := &guard{make(chan struct{}, 2), time.Millisecond}
	release := make(chan struct{})
	for range 3 {
		_, err := guarded(g, func() (int, error) {
			<-release
			return 1, nil
		})
		if err != errBlocked {
			t.Errorf("got %v", err)
		}
	}
	close(release)
	g.timeout = time.Hour
	if n, err := guarded(g, func() (int, error) { return 2, errBlocked }); n != 2 || !errors.Is(err, errBlocked) {
		t.Errorf("got %d, %v", n, err)
	}
}
