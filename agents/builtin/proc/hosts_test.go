package proc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// Some values of a composed host. peertest compares all of them with those of
// pmdaproc.
func TestHosts(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, linuxhosts.Processes(linuxhosts.Linux6_12, 2))})
	r.Want(map[string]string{
		"proc.psinfo.cmd":     "1=systemd 2=kthreadd 17=kworker/u512:0+flush-259:0 40=) S 1 ( 41=new\nline x 42=((sd-pam)) 43= 44=gone 4000=Main Thread 4194303=nginx",
		"proc.psinfo.sname":   "1=S 2=S 17=I 40=R 41=D 42=S 43=S 44=Z 4000=S 4194303=S",
		"proc.psinfo.nice":    "1=0 2=0 17=0 40=-5 41=-5 42=-5 43=-5 44=0 4000=0 4194303=-5",
		"proc.psinfo.exe":     "1=/usr/lib/systemd/systemd 2= 17= 40=/usr/bin/) S 1 ( 41=/tmp/new\nline (deleted) 42=/usr/lib/systemd/systemd 43=/memfd:x (deleted) 44= 4000=/usr/bin/java 4194303=/usr/sbin/nginx",
		"proc.smaps.rss":      "1=8589934593 40=8589934632 41=8589934633 42=8589934634 43=8589934635 4000=8589938592 4194303=8594128895",
		"proc.namespaces.pid": "1=1 2=2 17=17 40=40 41=41 42=42 43=43 44=44 4000=4000 4194303=4194303,1",
	})
}

// Each controller has its own version, whatever hierarchies of version 1 are mounted beside
// version 2. Their groups are none of version 2, also where they are mounted below it.
func TestMixedHierarchies(t *testing.T) {
	groups2 := []string{"/", "/a.slice", "/system.slice", "/system.slice/dev-disk-by.mount", "/system.slice/docker-" + linuxhosts.Container + ".scope"}
	groups1 := append(slices.Clone(groups2), "/vpn")
	metrics := []struct {
		name, controller string
		version          int   // that has the metric
		first            int64 // value of the first group; -1: the number of values counts
		groups           []string
	}{
		{"cgroup.memory.current", "memory", 2, linuxhosts.Large*4096 + 1, groups2[1:]},
		{"cgroup.memory.stat.anon", "memory", 2, linuxhosts.Large, groups2},
		{"cgroup.memory.usage", "memory", 1, linuxhosts.Large * 4096, groups1},
		{"cgroup.memory.stat.cache", "memory", 1, linuxhosts.Large, groups1},
		{"cgroup.cpu.stat.usage", "", 2, linuxhosts.Large, groups2},
		{"cgroup.pressure.cpu.some.total", "", 2, linuxhosts.Large + 1, groups2[1:]},
		{"cgroup.pressure.memory.some.total", "", 2, linuxhosts.Large + 1, groups2[1:]},
		{"cgroup.pressure.io.full.total", "", 2, 1, groups2[1:]},
		{"cgroup.cpusched.shares", "cpu,cpuacct", 1, 1024, groups1},
		{"cgroup.netclass.classid", "net_cls", 1, 0x100001, groups1},
		{"cgroup.cpuset.mems", "cpuset", 2, -1, groups2[1:]},
		{"cgroup.cpuset.mems", "cpuset", 1, -1, groups1},
		{"cgroup.io.stat.rbytes", "blkio", 2, -1, append(groups2, groups2...)}, // of two disks
		{"cgroup.blkio.all.time", "blkio", 1, -1, groups1},
	}
	for _, tt := range []struct {
		dir string            // of version 2
		v1  map[string]string // controllers by directory
	}{
		{"/sys/fs/cgroup", nil},
		{"/run/cgroup2", nil},
		{"/sys/fs/cgroup", map[string]string{"/sys/fs/cgroup/net_cls": "net_cls"}},
		{"/sys/fs/cgroup", map[string]string{"/run/vpn/net cls": "net_cls"}},
		{"/sys/fs/cgroup", map[string]string{"/sys/fs/cgroup/freezer": "freezer"}},
		{"/sys/fs/cgroup", map[string]string{"/sys/fs/cgroup/memory": "memory"}},
		{"/sys/fs/cgroup", map[string]string{"/sys/fs/cgroup/blkio": "blkio", "/dev/cpuset": "cpuset"}},
		{"/sys/fs/cgroup/unified", map[string]string{"/sys/fs/cgroup/systemd": "name=systemd"}},
		{"/sys/fs/cgroup/unified", map[string]string{"/sys/fs/cgroup/systemd": "name=systemd", "/sys/fs/cgroup/memory": "memory"}},
		{"/sys/fs/cgroup/unified", map[string]string{"/sys/fs/cgroup/cpu,cpuacct": "cpu,cpuacct", "/sys/fs/cgroup/net_cls": "net_cls"}},
	} {
		t.Run(tt.dir+fmt.Sprint(tt.v1), func(t *testing.T) {
			r := newHarness(t, Options{Root: pmdatest.Tree(t, linuxhosts.Mixed(tt.dir, tt.v1))})
			for _, m := range metrics {
				version := 2
				if slices.Contains(slices.Collect(maps.Values(tt.v1)), m.controller) {
					version = 1
				}
				var want []string
				for i, name := range m.groups {
					want = append(want, fmt.Sprintf("%s=%d", name, m.first+int64(i)))
				}
				switch got := strings.Fields(r.Values(m.name)); {
				case version != m.version && m.name == "cgroup.cpuset.mems": // both versions have it
				case version != m.version && len(got) > 0:
					t.Errorf("%s: got %q of version %d", m.name, got, m.version)
				case version == m.version && (m.first >= 0 && !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) || len(got) != len(want)):
					t.Errorf("%s: got %q, want %q", m.name, got, want)
				}
			}
		})
	}
}

// A hierarchy whose mount point is below another mount cannot be read. Version 2 mounted
// over those of version 1, as on WSL, has the controllers that it has the files of.
func TestHiddenHierarchies(t *testing.T) {
	files := linuxhosts.Mixed("/sys/fs/cgroup", nil)
	files["proc/mounts"] = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" +
		"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
	r := newHarness(t, Options{Root: pmdatest.Tree(t, files)})
	if got := strings.Fields(r.Values("cgroup.memory.current")); len(got) != 4 {
		t.Errorf("got %q", got)
	}
}
