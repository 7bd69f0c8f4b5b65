package proc

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
	"github.com/gopcp/pmcd/pdu"
)

// setContainer replaces the client by one of the test's user with a container.
func (r *harness) setContainer(container string) {
	r.setAttrs(map[pdu.AttrCode]string{
		pdu.AttrUserID: strconv.Itoa(os.Geteuid()), pdu.AttrGroupID: strconv.Itoa(os.Getegid()),
		pdu.AttrContainer: container,
	})
}

// mixed is version 2 with a hierarchy of version 1 that has memory and no containers.
const mixed = 3

func containerTree(version int) map[string]string {
	files := map[string]string{
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t4\t1\t1\ncpu\t2\t1\t1\n",
		"proc/mounts":  "cgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\n",
	}
	top, other := "cg/memory/", "cg/cpu/"
	if version >= 2 {
		files["proc/mounts"] = "cgroup2 /cg cgroup2 rw 0 0\n"
		top, other = "cg/", "cg/"
	}
	if version == mixed {
		files["proc/mounts"] = "x /m cgroup rw,memory 0 0\n" + files["proc/mounts"]
		files["m/cgroup.procs"] = ""
	}
	for _, pid := range []string{"1", "5", "6", "7", "8", "9"} {
		files["proc/"+pid+"/stat"] = pid + " (x) S 1\n"
		files["proc/"+pid+"/cmdline"] = "x\x00"
	}
	for dir, pids := range map[string]string{
		"":                                     "1\n",
		"docker/abc":                           "5\n",
		"docker/abc/child":                     "6\n7\n",
		"docker/abcdef":                        "8\n",
		"user.slice/docker/abc":                "", // a user's
		"machine.slice/libpod-x.scope":         "",
		"machine.slice/libpod-x.scope/payload": "9\n",
	} {
		if dir != "" {
			dir += "/"
		}
		files[top+dir+"cgroup.procs"] = pids
		files[top+dir+"memory.stat"] = "cache 1\n"
		files[other+dir+"cpu.shares"] = "1024\n"
		files[other+dir+"cpu.stat"] = "usage_usec 10\n"
	}
	return files
}

// A client with a container gets its processes and control groups. Other clients
// still get those of the host, with the same ids.
func TestContainer(t *testing.T) {
	root := roottest.Start(t)
	root.Set("abc", roottest.Container{PID: 5, Cgroup: "docker/abc"})
	root.Set("pod", roottest.Container{PID: 9, Cgroup: "libpod-x.scope"})
	root.Set("gone", roottest.Container{PID: 4, Cgroup: "docker/gone"})
	root.Set("odd", roottest.Container{PID: 4, Cgroup: "../.."})
	none := pdu.ErrnoNoContainer.Error()
	for version, metric := range map[int]string{1: "cgroup.cpusched.shares", 2: "cgroup.cpu.stat.usage", mixed: "cgroup.cpu.stat.usage"} {
		value := map[int]string{1: "1024", 2: "10", mixed: "10"}[version]
		r := newHarness(t, Options{Root: pmdatest.Tree(t, containerTree(version)), Pmdaroot: root.Socket})
		all := "1=1 5=5 6=6 7=7 8=8 9=9"
		ids := r.Instances(r.Metrics[metric].InDom.Serial)
		for _, tt := range []struct{ container, pids, n, groups string }{
			{"", all, "6", ""},
			{"abc", "5=5 6=6 7=7", "3", "/docker/abc=" + value + " /docker/abc/child=" + value},
			{"pod", "9=9", "1", "/machine.slice/libpod-x.scope=" + value + " /machine.slice/libpod-x.scope/payload=" + value},
			{"gone", "", "0", ""},
			{"unknown", none, none, none},
			{"", all, "6", ""},
		} {
			r.setContainer(tt.container)
			want := map[string]string{"proc.psinfo.pid": tt.pids, "proc.nprocs": tt.n, metric: tt.groups}
			if tt.container == "" {
				delete(want, metric)
			}
			r.Want(want)
		}
		if again := r.Instances(r.Metrics[metric].InDom.Serial); !slices.Equal(again, ids) {
			t.Errorf("version %d: instances were %v and are %v", version, ids, again)
		}
		// A container whose path leads out of the hierarchies is an error.
		r.setContainer("odd")
		r.Want(map[string]string{"proc.nprocs": none, metric: none})
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, containerTree(2)), Pmdaroot: "/nonexistent"})
	r.setContainer("abc")
	lost := pdu.ErrnoNotConn.Error()
	r.Want(map[string]string{"proc.nprocs": lost, "cgroup.cpu.stat.usage": lost, "cgroup.subsys.count": "2"})
}
