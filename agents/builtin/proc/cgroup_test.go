package proc

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// cgroups1 has hierarchies of version 1, and one of version 2 without controllers.
var cgroups1 = map[string]string{
	"proc/mounts": "cgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/set cgroup rw,cpuset 0 0\n" +
		"cgroup /cg/net cgroup rw,net_cls 0 0\ncgroup /cg/blk cgroup rw,blkio 0 0\ncgroup /cg/sy\\040stemd cgroup rw,name=systemd 0 0\n" +
		"cgroup2 /cg/unified cgroup2 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nbroken\n",
	"proc/cgroups":                  "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t1\t1\ncpu\t1\t2\t1\ncpuacct\t1\t2\t1\nmemory\t4\t43\t0\nblkio\tx\t1\t1\n",
	"proc/diskstats":                "   8       0 sda 1\n   7       0 loop0 1\n 254       0 vda 1\n",
	"cg/cpu/cpu.shares":             "1024\n",
	"cg/cpu/cpu.stat":               "nr_periods 1\nnr_throttled 2\nthrottled_time 3\n",
	"cg/cpu/cpu.cfs_quota_us":       "-1\n",
	"cg/cpu/cpuacct.stat":           "user 12\nsystem x\n",
	"cg/cpu/cpuacct.usage":          "120000000\n",
	"cg/cpu/cpuacct.usage_percpu":   "70000000 50000000 \n",
	"cg/cpu/a/cpu.shares":           "512\n",
	"cg/cpu/a/cpu.cfs_quota_us":     "5000\n",
	"cg/cpu/a\\x2db/c/cpuacct.stat": "user 1\nsystem 2\n",
	// Groups of a controller have the same files.
	"cg/cpu/a/cpuacct.stat": "", "cg/cpu/a\\x2db/cpuacct.stat": "", "cg/cpu/a\\x2db/cpu.shares": "", "cg/cpu/a\\x2db/cpu.cfs_quota_us": "",
	"cg/memory/docker/memory.stat": "",
	"cg/memory/memory.stat":        "cache 4096\nrss 8192\ntotal_rss 99\nworkingset_refault 7\nrecent_scanned_anon 5\n",
	"cg/memory/memory.failcnt":     "3\n",
	"cg/memory/docker/" + strings.Repeat("0123456789abcdef", 4) + "/memory.stat": "cache 1\n",
	"cg/memory/docker/memory.usage_in_bytes":                                     "77\n",
	"cg/set/cpuset.cpus":                                                         "0-3\n",
	"cg/set/cpuset.mems":                                                         "\n",
	"cg/net/net_cls.classid":                                                     "65537\n",
	"cg/blk/blkio.time":                                                          "8:0 12\n254:0 5\n",
	"cg/blk/x/blkio.time":                                                        "",
	"cg/blk/blkio.sectors":                                                       "8:0 11\n",
	"cg/blk/blkio.io_serviced":                                                   "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 4\n8:0 Total 5\n254:0 Read 10\n7:0 Read 100\n9:9 Read 1\nTotal 15\n",
	"cg/unified/cpu.stat":                                                        "usage_usec 1\n",
}

// cgroups2 has a hierarchy of version 2 only.
var cgroups2 = map[string]string{
	"proc/mounts":               "cgroup2 /cg cgroup2 rw 0 0\ncgroup2 /cg cgroup2 rw 0 0\n",
	"proc/diskstats":            " 254       0 vda 1\n",
	"cg/cpu.stat":               "usage_usec 10\nuser_usec 7\nsystem_usec 3\n",
	"cg/io.stat":                "254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n9:9 rbytes=1\n",
	"cg/a.slice/cpu.pressure":   "some avg10=0.25 avg60=x avg300=1.50 total=44\nfull avg10=2.00 avg60=0.00 avg300=0.00 total=5\n",
	"cg/a.slice/io.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=2.00 avg60=0.00 avg300=0.00 total=5\n",
	"cg/a.slice/irq.pressure":   "full avg10=0.50 avg60=0.00 avg300=0.00 total=6\n",
	"cg/a.slice/memory.stat":    "anon 4096\nfile 1\nslab_reclaimable 2\nworkingset_refault_anon 5\nworkingset_refault_file 6\nworkingset_activate_file 3\n",
	"cg/a.slice/memory.current": "8192\n",
	"cg/a.slice/cpuset.cpus":    "0\n",
}

func TestCgroups1(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, cgroups1)})
	id := strings.Repeat("0123456789abcdef", 4)
	for range 2 {
		r.setAttrs(nil) // all clients see groups
		r.Want(map[string]string{
			"cgroup.subsys.hierarchy":                    "cpuset=3 cpu=1 cpuacct=1 memory=4",
			"cgroup.subsys.enabled":                      "cpuset=1 cpu=1 cpuacct=1 memory=0",
			"cgroup.subsys.count":                        "4",
			"cgroup.mounts.count":                        "7",
			"cgroup.mounts.subsys":                       "/cg/cpu=cpu,cpuacct /cg/memory=memory /cg/set=cpuset /cg/net=? /cg/blk=? /cg/sy_stemd=? /cg/unified=?",
			"cgroup.cpuset.cpus":                         "/=0-3",
			"cgroup.cpuset.mems":                         "/=",
			"cgroup.cpusched.shares":                     "/=1024 /a=512",
			"cgroup.cpusched.cfs_quota":                  "/a=5000",
			"cgroup.cpusched.periods":                    "/=1",
			"cgroup.cpusched.throttled_time":             "/=3",
			"cgroup.cpuacct.usage":                       "/=120000000",
			"cgroup.cpuacct.stat.system":                 "/a-b/c=20",
			"cgroup.cpuacct.usage_percpu":                "/::cpu0=70000000 /::cpu1=50000000",
			"cgroup.memory.stat.cache":                   "/=4096 /docker/" + id + "=1",
			"cgroup.memory.stat.total.rss":               "/=99",
			"cgroup.memory.stat.workingset.refault":      "/=7",
			"cgroup.memory.stat.recent.scanned_anon":     "/=5",
			"cgroup.memory.failcnt":                      "/=3",
			"cgroup.memory.usage":                        "/docker=77",
			"cgroup.memory.id.container":                 "/= /docker= /docker/" + id + "=" + id,
			"cgroup.netclass.classid":                    "/=65537",
			"cgroup.blkio.all.time":                      "/=170 /x=0",
			"cgroup.blkio.dev.time":                      "/::sda=120 /::vda=50",
			"cgroup.blkio.dev.sectors":                   "/::sda=5",
			"cgroup.blkio.dev.io_serviced.async":         "/::sda=4 /::vda=0",
			"cgroup.blkio.all.io_serviced.read":          "/=11",
			"cgroup.blkio.all.throttle.io_serviced.read": "",
			"cgroup.cpu.stat.usage":                      "/=1",
			"cgroup.io.stat.rios":                        "",
		})
	}
}

func TestCgroups2(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, cgroups2)})
	r.Want(map[string]string{
		"cgroup.mounts.count":               "1",
		"cgroup.cpu.stat.usage":             "/=10",
		"cgroup.cpu.stat.user":              "/=7",
		"cgroup.pressure.cpu.some.avg10sec": "/a.slice=0.25",
		"cgroup.pressure.cpu.some.avg1min":  "",
		"cgroup.pressure.cpu.some.avg5min":  "/a.slice=1.5",
		"cgroup.pressure.io.full.total":     "/a.slice=5",
		"cgroup.pressure.irq.full.avg10sec": "/a.slice=0.5",
		"cgroup.io.stat.rbytes":             "/::vda=1",
		"cgroup.io.stat.dios":               "/::vda=6",
		"cgroup.memory.stat.anon":           "/a.slice=4096",
		"cgroup.memory.stat.rss":            "",
		"cgroup.memory.current":             "/a.slice=8192",
		"cgroup.cpuset.cpus":                "/a.slice=0",
		"cgroup.cpuacct.usage":              "",
		"cgroup.blkio.all.time":             "",

		"cgroup.memory.stat.workingset.refault":  "/a.slice=11", // since Linux 5.9
		"cgroup.memory.stat.workingset.activate": "/a.slice=3",
	})
	// An instance keeps its id when another one is added.
	before := r.Instances(indomGroup2)
	pmdatest.WriteFile(t, r.host.Root, "cg/b/cpu.stat", "")
	if after := r.Instances(indomGroup2); len(after) != len(before)+1 || after[1] != before[1] && after[2] != before[1] {
		t.Errorf("instances %v, then %v", before, after)
	}
}

// The directories are read once in a fetch, also for metrics of several controllers, and only the
// files of the metrics.
func TestCgroupsAreReadOnce(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, cgroups2)})
	fetch := r.Repeat("cgroup.cpu.stat.usage", "cgroup.memory.current", "cgroup.memory.stat.anon", "cgroup.cpuset.cpus", "cgroup.io.stat.rios")
	fetch()
	n := make(map[string]int)
	for _, file := range r.opened(func() { fetch() }) {
		n[file]++
	}
	for file, want := range map[string]int{"/cg/a.slice": 1, "/cg/cpu.stat": 1, "/cg/a.slice/cpu.pressure": 0, "/cg/a.slice/cpuset.mems": 0, "/cg/a.slice/memory.current": 1} {
		if n[file] != want {
			t.Errorf("%s was opened %d times, want %d", file, n[file], want)
		}
	}
}

// A file that a group lacks is not tried in the other groups of its controller in the same fetch,
// unless the group has been removed, or is the root, which lacks other files.
func TestMissingFilesAreTriedTwice(t *testing.T) {
	names := []string{"/", "/a", "/b", "/c"}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{"proc/mounts": "cgroup2 /cg cgroup2 rw 0 0\ncgroup /blk cgroup rw,blkio 0 0\n"})})
	for _, name := range names {
		for _, file := range []string{"/cg" + name + "/memory.stat", "/cg" + name + "/cpu.stat", "/blk" + name + "/blkio.throttle.io_serviced"} {
			pmdatest.WriteFile(t, r.host.Root, file, "")
		}
	}
	fetch := r.Repeat("cgroup.memory.current", "cgroup.pressure.cpu.some.total", "cgroup.blkio.all.time", "cgroup.cpusched.shares", "cgroup.netclass.classid")
	fetch()
	tried := make(map[string]int)
	for _, path := range r.opened(func() { fetch() }) {
		tried[path[strings.LastIndexByte(path, '/')+1:]]++
	}
	for file, want := range map[string]int{"memory.current": 3, "blkio.io_queued": 3, "blkio.time": 3, "blkio.throttle.io_serviced": 4,
		"cpu.pressure": 4, "cpu.shares": 0, "net_cls.classid": 0} {
		if tried[file] != want {
			t.Errorf("%s was tried %d times, want %d", file, tried[file], want)
		}
	}
	for _, name := range names[1:] {
		pmdatest.WriteFile(t, r.host.Root, "/cg"+name+"/memory.current", "1")
	}
	want := "/a=1 /b=1 /c=1"
	if got := r.Values("cgroup.memory.current"); len(got) != len(want) {
		t.Errorf("files that exist now: got %q, want %q", got, want)
	}
	removed := ""
	r.host.Open = func(path string, flags int) (int, error) {
		dir, file := filepath.Split(path)
		if file == "memory.current" && removed == "" && dir != r.host.Root+"/cg/" {
			removed = dir // after its group was listed
		}
		if removed != "" && strings.HasPrefix(path+"/", removed) {
			return -1, syscall.ENOENT
		}
		return syscall.Open(path, flags, 0)
	}
	if got := r.Values("cgroup.memory.current"); len(got) != len("/a=1 /b=1") {
		t.Errorf("one group was removed: got %q", got)
	}
}

// Numbers belong to the last device before them. Some kernels write no newline after a device
// without numbers.
func TestDevicesInOneLine(t *testing.T) {
	metrics := map[string]string{
		"io.stat": "cgroup.io.stat.rbytes", "cpu.pressure": "cgroup.pressure.cpu.some.total", "memory.stat": "cgroup.memory.stat.anon",
		"blkio.sectors": "cgroup.blkio.dev.sectors", "blkio.io_serviced": "cgroup.blkio.dev.io_serviced.read",
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{
		"proc/mounts":    "cgroup2 /cg cgroup2 rw 0 0\ncgroup /cg/. cgroup rw,blkio 0 0\n",
		"proc/diskstats": " 7 0 loop0 1\n 7 1 loop1 1\n 8 0 sda 1\n 8 16 sdb 1\n 253 0 dm-0 1\n",
	})})
	const numbers = " rbytes=7 wbytes=8 rios=9 wios=10 dbytes=0 dios=0"
	for _, tt := range []struct{ file, text, want string }{
		{"io.stat", "8:0" + numbers + "\n", "/::sda=7"},
		{"io.stat", "8:16 8:0" + numbers + "\n", "/::sda=7"},
		{"io.stat", "7:0 7:1 8:0 253:0 8:16" + numbers + "\n8:0 rbytes=1\n", "/::sdb=7 /::sda=1"},
		{"io.stat", "8:16 \n8:0" + numbers + "\n", "/::sda=7"},
		{"io.stat", "8:0" + numbers + "\n8:16 253:0 ", "/::sda=7"},
		{"io.stat", "8:0 7:0" + numbers + "\n", ""},       // of a loop device
		{"io.stat", "8:0 9:9" + numbers + "\n", ""},       // not in diskstats
		{"io.stat", "8:0 (unknown)" + numbers + "\n", ""}, // of a device without name
		{"io.stat", "(unknown) 8:0" + numbers + "\n", "/::sda=7"},
		{"io.stat", "(unknown)" + numbers + "\n8:0" + numbers + "\n", "/::sda=7"},
		{"io.stat", "8:0" + numbers + " use_delay=1 cost.usage=5 8:16 rbytes=3\n", "/::sda=7 /::sdb=3"},
		{"io.stat", "8:0 rbytes=1 x rbytes=7\n", "/::sda=7"},
		{"io.stat", "rbytes=7 8:0\n8:16\n\n", ""},
		{"io.stat", "8:0 rbytes=x rbytes rbytes= =7\n", ""},
		{"blkio.sectors", "8:0 14\n", "/::sda=7"},
		{"blkio.sectors", "8:16 8:0 14\n", "/::sda=7"},
		{"blkio.io_serviced", "8:16 8:0 Read 7\n8:0 Write 3\nTotal 10\n", "/::sda=7"},
		{"blkio.io_serviced", "8:0 Read x\n8:16 Read 7 8:0 Write 3\nRead 4\n", "/::sdb=7 /::sda=0"},
		{"cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n", "/=7"},
		{"cpu.pressure", "full avg10=0.00 avg60=0.00 avg300=0.00 total=9 some avg10=0.00 total=7\n", "/=7"},
		{"cpu.pressure", "some new=1 avg10=0.00 total=7 other total=8\ntotal=6\n", "/=7"},
		{"memory.stat", "file 1 anon 2\nanon 7\nanon\nanon x\n", "/=7"},
	} {
		t.Run(tt.file+" "+tt.text, func(t *testing.T) {
			for file := range metrics {
				pmdatest.WriteFile(t, r.host.Root, "cg/"+file, "")
			}
			pmdatest.WriteFile(t, r.host.Root, "cg/"+tt.file, tt.text)
			if got := r.Values(metrics[tt.file]); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Disks after the first MiB of /proc/diskstats have names. A line that is cut has none.
func TestManyDisks(t *testing.T) {
	disks := strings.Repeat(" 7 0 loop0 "+strings.Repeat("0 ", 50)+"\n", 1<<20/100)
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{
		"proc/mounts":    "cgroup2 /cg cgroup2 rw 0 0\n",
		"proc/diskstats": disks + " 253 0 dm-0 1\n 253 123 dm-1",
		"cg/io.stat":     "253:0 rbytes=1\n253:123 rbytes=2\n",
	})})
	r.Want(map[string]string{"cgroup.io.stat.rbytes": "/::dm-0=1"})
}

func TestInstances(t *testing.T) {
	var s instances[int]
	look := func(names ...string) (ids []int32) {
		s.beginScan()
		for _, name := range names {
			s.add(name)
		}
		s.endScan()
		s.Each(func(id int32, _ string, _ any) bool { ids = append(ids, id); return true })
		return ids
	}
	for _, tt := range []struct {
		names string
		last  int32
	}{{"a b c", 2}, {"c", 2}, {"d", 3}, {"a", 0}} {
		if ids := look(strings.Fields(tt.names)...); ids[len(ids)-1] != tt.last {
			t.Errorf("%s: %v", tt.names, ids)
		}
	}
	for range 3 {
		var many []string
		for i := range 2000 {
			many = append(many, "x"+string(rune('a'+i%26))+strings.Repeat("y", i/26)+string(rune('a'+s.nextID%26)))
		}
		look(many...)
	}
	if look(); len(s.known) > maxAbsent {
		t.Errorf("%d are remembered", len(s.known))
	}
}

func TestLabels(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, cgroups1)})
	for serial, want := range map[int]string{
		indomBlkIODev: `{"cgroup":"/","device_name":"sda"}`, indomPerCPU: `{"cgroup":"/","cpu":"0"}`, indomCPUSet: `{"cgroup":"/"}`,
	} {
		if got := r.Labels(pdu.LabelInstances, serial); len(got) == 0 || got[0] != want {
			t.Errorf("labels of instances of %d: %s, want %s", serial, got, want)
		}
	}
	for serial, want := range map[int]string{
		indomBlkIODev: `{"device_type":"block"}`, indomBlkIO: `{"device_type":"block"}`, indomMemory: `{"device_type":"memory"}`,
		indomNetClass: `{"device_type":"interface"}`, indomCPUAcct: `{"device_type":"cpu"}`,
	} {
		if got := r.Labels(pdu.LabelInDom, serial); len(got) != 1 || got[0] != want {
			t.Errorf("labels of %d: %s, want %s", serial, got, want)
		}
	}
}

// Files of a hierarchy that is mounted with noprefix do not begin with the name of the controller.
func TestCgroupNoPrefix(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t1\t1\t1\nmemory\t2\t1\t1\n",
		"proc/mounts": "cgroup /dev/cpuset cgroup rw,relatime,cpuset,noprefix,release_agent=/sbin/cpuset_release_agent 0 0\n" +
			"cgroup /cg/memory cgroup rw,memory 0 0\n",
		"dev/cpuset/cpus": "0-3\n", "dev/cpuset/mems": "0\n", "dev/cpuset/cgroup.procs": "",
		"dev/cpuset/fg/cpus": "1\n", "dev/cpuset/fg/cpuset.cpus": "9\n", "dev/cpuset/fg/mems": "0\n",
		"cg/memory/memory.stat": "cache 4096\n",
	})
	newHarness(t, Options{Root: root}).Want(map[string]string{
		"cgroup.cpuset.cpus":       "/=0-3 /fg=1",
		"cgroup.cpuset.mems":       "/=0 /fg=0",
		"cgroup.memory.stat.cache": "/=4096",
		"cgroup.mounts.subsys":     "/dev/cpuset=cpuset /cg/memory=memory",
	})
}
