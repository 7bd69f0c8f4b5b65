package linuxhosts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Container is the id of the container in the trees of this package.
var Container = strings.Repeat("0123456789abcdef", 4)

// A proc is a process. All its numbers follow from its pid.
type proc struct {
	pid     int
	comm    string
	args    []string // empty for a kernel thread or a zombie
	state   byte
	exe     string
	cgroup  string
	nspid   string // pids in its nested pid name spaces, for status
	uid     int
	threads []int
}

// Processes returns a host with processes, as kernel k shows them, in control
// groups of a version (see Cgroups). There are processes whose names have blanks,
// parentheses and newlines, kernel threads, a process in a container, processes
// whose program was deleted, and a zombie.
func Processes(k Kernel, version int) Files {
	f := Join(Cgroups(version))
	for _, p := range []proc{
		{pid: 1, comm: "systemd", args: []string{"/sbin/init", "splash"}, state: 'S', exe: "/usr/lib/systemd/systemd", cgroup: "/init.scope"},
		{pid: 2, comm: "kthreadd", state: 'S', cgroup: "/"},
		{pid: 17, comm: "kworker/u512:0+flush-259:0", state: 'I', cgroup: "/"},
		{pid: 40, comm: ") S 1 (", args: []string{"a) b"}, state: 'R', exe: "/usr/bin/) S 1 (", cgroup: "/a.slice", uid: 1000},
		{pid: 41, comm: "new\nline x", args: []string{"new line", ""}, state: 'D', exe: "/tmp/new\nline (deleted)", cgroup: "/a.slice", uid: 1000},
		{pid: 42, comm: "((sd-pam))", args: []string{"(sd-pam)"}, state: 'S', exe: "/usr/lib/systemd/systemd", cgroup: "/a.slice", uid: 1000},
		{pid: 43, comm: "", args: []string{"-"}, state: 'S', exe: "/memfd:x (deleted)", cgroup: "/a.slice", uid: 65534},
		{pid: 44, comm: "gone", state: 'Z', cgroup: "/"},
		{pid: 4000, comm: "Main Thread", args: []string{"/usr/bin/java", "-jar", "app.jar"}, state: 'S', exe: "/usr/bin/java", cgroup: "/", threads: []int{4000, 4001, 4003}},
		{pid: 4194303, comm: "nginx", args: []string{"nginx: master process nginx -g daemon off;"}, state: 'S', exe: "/usr/sbin/nginx", cgroup: "/system.slice/docker-" + Container + ".scope", nspid: "\t1", uid: 100000},
	} {
		p.files(f, k, version, fmt.Sprintf("proc/%d/", p.pid), p.pid)
		for _, tid := range p.threads {
			p.files(f, k, version, fmt.Sprintf("proc/%d/task/%d/", p.pid, tid), tid)
		}
	}
	f["proc/stat"] = "cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\nbtime 1700000000\n"
	f["proc/uptime"] = "1000000.25 3000000.50\n"
	f["proc/loadavg"] = "0.50 0.25 0.12 3/777 4194303\n"
	return f
}

// ManyProcesses returns n more processes of such a host. They are alike: their directories
// are links to the first one, so that the tree has few files.
func ManyProcesses(k Kernel, version, n int) Files {
	const first = 10_000
	f := make(Files)
	p := proc{pid: first, comm: "worker", args: []string{"/usr/bin/worker", "--wait"}, state: 'S', exe: "/usr/bin/worker", cgroup: "/a.slice", uid: 1000}
	p.files(f, k, version, fmt.Sprintf("proc/%d/", first), first)
	for pid := first + 1; pid < first+n; pid++ {
		f[fmt.Sprintf("proc/%d", pid)] = fmt.Sprintf("-> %d", first)
	}
	return f
}

// files adds the files of a process or, with the id of a thread, of that thread.
func (p *proc) files(f Files, k Kernel, version int, dir string, id int) {
	f[dir+"cmdline"] = strings.Join(append(p.args, ""), "\x00")
	// stat has the name as it is, status has it escaped.
	var t text
	fmt.Fprintf(&t, "%d (%s) %c 1 %d %d 34816 -1 4194304", id, p.comm, p.state, p.pid, p.pid)
	memory := len(p.args) > 0
	for i := 10; i <= 22; i++ { // from the page faults to the start
		n := uint64(id + i)
		switch {
		case i == 18:
			n = 20
		case i == 19 && p.uid > 0:
			t.WriteString(" -5")
			continue
		case i == 19, i == 21:
			n = 0
		case i == 22:
			n = 100 + uint64(p.pid)
		case i == 14:
			n = Large
		}
		fmt.Fprintf(&t, " %d", n)
	}
	if memory {
		fmt.Fprintf(&t, " %d %d 18446744073709551615 94000000000001 94000000000002 140000000000003 0 0", uint64(Large)*4096, 1<<20+p.pid)
	} else {
		t.WriteString(" 0 0 18446744073709551615 0 0 0 0 0")
	}
	t.WriteString(" 0 0 4096 81920 1 0 0 17 3 0 0") // signals to policy
	if k >= Linux3_10 {
		t.WriteString(" 5 6 7 94000000000004 94000000000005 94000000000006 140000000000007 140000000000008 140000000000009 140000000000010 0")
	}
	f[dir+"stat"] = t.String() + "\n"
	f[dir+"status"] = p.status(k, id)
	f[dir+"statm"] = "0 0 0 0 0 0 0\n"
	f[dir+"environ"], f[dir+"maps"] = "", ""
	if memory {
		f[dir+"statm"] = fmt.Sprintf("%d %d 300 20 0 400 0\n", 1<<20+p.pid, 1000+p.pid)
		f[dir+"environ"] = "PATH=/bin\x00A=b c\x00EMPTY=\x00"
		f[dir+"maps"] = "55eac3506000-55eac3508000 r--p 00000000 fe:01 1234 " + p.exe + "\n"
		f[dir+"exe"] = "-> " + p.exe
	}
	f[dir+"cwd"] = "-> /"
	f[dir+"fd/0"], f[dir+"fd/1"], f[dir+"fd/255"] = "", "", ""
	f[dir+"wchan"] = "do_epoll_wait"
	f[dir+"schedstat"] = fmt.Sprintf("%d %d %d\n", uint64(Large)+uint64(id), id, p.pid)
	f[dir+"oom_score"] = "666\n"
	f[dir+"cgroup"] = p.groups(version)
	f[dir+"io"] = keyed("%s: %d", "rchar wchar syscr syscw read_bytes write_bytes cancelled_write_bytes", Huge-uint64(p.pid))
	if k >= Linux4_18 && memory {
		names := "Rss Pss Shared_Clean Shared_Dirty Private_Clean Private_Dirty Referenced Anonymous LazyFree AnonHugePages ShmemPmdMapped Shared_Hugetlb Private_Hugetlb Swap SwapPss Locked"
		if k >= Linux5_5 {
			names += " Pss_Anon Pss_File Pss_Shmem FilePmdMapped"
		}
		if k >= Linux6_12 {
			names += " Pss_Dirty KSM"
		}
		f[dir+"smaps_rollup"] = "55eac3506000-7ffdb2b0e000 ---p 00000000 00:00 0                          [rollup]\n" +
			keyed("%s: %d kB", names, Large+uint64(p.pid))
	}
}

func (p *proc) status(k Kernel, id int) string {
	var t text
	name := strings.NewReplacer("\\", "\\\\", "\n", "\\n").Replace(p.comm)
	t.line("Name:\t%s", name)
	if k >= Linux5_5 {
		t.line("Umask:\t0022")
	}
	t.line("State:\t%c\nTgid:\t%d", p.state, p.pid)
	if k >= Linux3_10 {
		t.line("Ngid:\t0")
	}
	t.line("Pid:\t%d\nPPid:\t1\nTracerPid:\t0", id)
	t.line("Uid:\t%d\t%d\t%d\t%d\nGid:\t%[1]d\t%d\t%[2]d\t%d", p.uid, p.uid+1, p.uid+2, p.uid+3, p.uid+4, p.uid+5)
	t.line("FDSize:\t64\nGroups:\t0 1 ")
	if k >= Linux4_18 {
		t.line("NStgid:\t%d%s\nNSpid:\t%d%[2]s\nNSpgid:\t%[1]d%[2]s\nNSsid:\t%[1]d%[2]s", p.pid, p.nspid, id)
	}
	if k >= Linux6_12 {
		t.line("Kthread:\t%d", map[bool]int{true: 1}[len(p.args) == 0])
	}
	if len(p.args) > 0 {
		names := "VmPeak VmLck VmHWM VmData VmStk VmExe VmLib VmPTE"
		if k >= Linux3_10 {
			names = "VmPeak VmLck VmPin VmHWM VmData VmStk VmExe VmLib VmPTE VmSwap"
		}
		t.line("VmSize:\t%8d kB\nVmRSS:\t%8d kB", 4*(1<<20+p.pid), 4*(1000+p.pid)) // as in statm
		t.WriteString(keyed("%s:\t%8d kB", names, 5000+uint64(p.pid)))
	}
	t.line("Threads:\t%d\nSigQ:\t0/96365\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000010000", max(1, len(p.threads)))
	t.line("SigIgn:\t0000000000001000\nSigCgt:\tffffffffffffffff\nCapInh:\t0000000000000000\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7,128-255\nMems_allowed_list:\t0-3")
	t.line("voluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d", 10+id, 20+id)
	return t.String()
}

// groups returns the file cgroup, which has a line for each hierarchy.
func (p *proc) groups(version int) string {
	if version == 2 {
		return "0::" + p.cgroup + "\n"
	}
	var t text
	for i, h := range hierarchies {
		t.line("%d:%s:%s", 9-i, h, p.cgroup)
	}
	if version == Hybrid {
		t.line("0::%s", p.cgroup)
	}
	return t.String()
}

// Hybrid is the version of control groups that has hierarchies of version 1, and
// one of version 2 without controllers.
const Hybrid = 3

var hierarchies = []string{"name=systemd", "cpu,cpuacct", "cpuset", "memory", "blkio", "net_cls"}

var groups = []string{"", "/a.slice", "/system.slice", `/system.slice/dev-disk\x2dby.mount`, "/system.slice/docker-" + Container + ".scope"}

const diskstats = "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n   8      16 sdb 1 2 3 4 5 6 7 8 9 10 11\n 253       0 dm-0 1 2 3 4 5 6 7 8 9 10 11\n"

// Cgroups returns control groups of a version (1, 2 or Hybrid): the root, slices,
// and the group of a container.
func Cgroups(version int) Files {
	f := Files{"proc/diskstats": diskstats}
	var mounts text
	mounts.line("/dev/sda1 / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0")
	if version == 2 {
		mounts.line("cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0")
		f["proc/cgroups"] = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t77\t1\ncpu\t0\t77\t1\nmemory\t0\t77\t1\n"
		for i, g := range groups {
			version2(f, "sys/fs/cgroup"+g+"/", uint64(i))
		}
	} else {
		f["proc/cgroups"] = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t7\t5\t1\ncpu\t8\t5\t1\ncpuacct\t8\t5\t1\nmemory\t6\t5\t1\nblkio\t5\t5\t1\nnet_cls\t4\t5\t0\n"
		for _, h := range hierarchies {
			dir := "sys/fs/cgroup/" + strings.TrimPrefix(h, "name=")
			mounts.line("cgroup /%s cgroup rw,nosuid,%s 0 0", dir, h)
			for i, g := range groups {
				f[dir+g+"/tasks"] = "1\n"
				version1(f, h, dir+g+"/", uint64(i))
			}
		}
	}
	if version == Hybrid {
		mounts.line("cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0")
		f["sys/fs/cgroup/unified/cpu.stat"] = "usage_usec 1\nuser_usec 2\nsystem_usec 3\n"
	}
	f["proc/mounts"] = mounts.String()
	return f
}

// Mixed returns control groups of version 2, mounted at a directory, and beside them
// hierarchies of version 1, by mount point with the options that name their controllers.
// The groups of version 2 lack the files of these controllers. A hierarchy of version 1
// has a group /vpn, too.
func Mixed(dir string, hierarchies map[string]string) Files {
	f := Files{"proc/diskstats": diskstats, "proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"}
	for i, g := range groups {
		version2(f, dir[1:]+g+"/", uint64(i))
	}
	var mounts text
	mounts.line("/dev/sda1 / ext4 rw 0 0\ncgroup2 %s cgroup2 rw,nosuid,nsdelegate 0 0", dir)
	for _, path := range slices.Sorted(maps.Keys(hierarchies)) {
		h := hierarchies[path]
		mounts.line("none %s cgroup rw,relatime,%s 0 0", strings.ReplaceAll(path, " ", "\\040"), h)
		for i, g := range groups {
			for _, file := range map[string][]string{
				"memory": {"memory.stat", "memory.current", "memory.max"}, "blkio": {"io.stat"}, "cpuset": {"cpuset.cpus", "cpuset.mems"},
			}[h] {
				delete(f, dir[1:]+g+"/"+file)
			}
			version1(f, h, path[1:]+g+"/", uint64(i))
		}
		f[path[1:]+"/cgroup.procs"] = ""
		version1(f, h, path[1:]+"/vpn/", uint64(len(groups)))
		f[path[1:]+"/vpn/cgroup.procs"] = ""
	}
	f["proc/mounts"] = mounts.String()
	return f
}

func version1(f Files, hierarchy, dir string, i uint64) {
	number := func(file string, n uint64) { f[dir+file] = fmt.Sprintf("%d\n", n) }
	switch hierarchy {
	case "cpu,cpuacct":
		number("cpu.shares", 1024+i)
		number("cpu.cfs_period_us", 100000)
		f[dir+"cpu.cfs_quota_us"] = "-1\n"
		f[dir+"cpu.stat"] = keyed("%s %d", "nr_periods nr_throttled throttled_time", Huge-i)
		f[dir+"cpuacct.stat"] = keyed("%s %d", "user system", Large+i)
		number("cpuacct.usage", Large*1000000+i)
		f[dir+"cpuacct.usage_percpu"] = fmt.Sprintf("%d %d \n", Large*i, i)
	case "cpuset":
		f[dir+"cpuset.cpus"], f[dir+"cpuset.mems"] = "0-7,128-255\n", "0-3\n"
	case "memory":
		names := "cache rss rss_huge shmem mapped_file dirty writeback swap pgpgin pgpgout pgfault pgmajfault inactive_anon active_anon inactive_file active_file unevictable"
		f[dir+"memory.stat"] = keyed("%s %d", names, Large+i) + keyed("total_%s %d", names, 2*Large+i)
		number("memory.usage_in_bytes", Large*4096+i)
		number("memory.failcnt", i)
		number("memory.limit_in_bytes", map[bool]uint64{true: 1<<64 - 1, false: 9223372036854771712}[i == 0])
	case "blkio":
		for _, file := range []string{"io_serviced", "io_service_bytes", "throttle.io_serviced", "throttle.io_service_bytes", "io_merged", "io_queued", "io_service_time", "io_wait_time"} {
			var t text
			for d, dev := range []string{"8:0", "8:16", "253:0"} {
				for j, op := range []string{"Read", "Write", "Sync", "Async", "Total"} {
					t.line("%s %s %d", dev, op, Large+100*uint64(d)+10*uint64(j)+i)
				}
			}
			f[dir+"blkio."+file] = t.String() + fmt.Sprintf("Total %d\n", 3*uint64(Large))
		}
		f[dir+"blkio.sectors"], f[dir+"blkio.time"] = fmt.Sprintf("8:0 %d\n8:16 7\n", Large+i), fmt.Sprintf("8:0 %d\n8:16 8\n", i)
	case "net_cls":
		number("net_cls.classid", 0x100001+i)
	}
}

func version2(f Files, dir string, i uint64) {
	f[dir+"cgroup.controllers"] = "cpuset cpu io memory pids\n"
	f[dir+"cpu.stat"] = keyed("%s %d", "usage_usec user_usec system_usec nr_periods nr_throttled throttled_usec", Large+i)
	f[dir+"io.stat"] = fmt.Sprintf("8:16 rbytes=%d wbytes=%d rios=3 wios=4 dbytes=5 dios=6\n253:0 \n8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n", uint64(Huge)-i, Large+i)
	f[dir+"memory.stat"] = keyed("%s %d", "anon file kernel kernel_stack pagetables percpu sock vmalloc shmem zswap zswapped file_mapped file_dirty file_writeback swapcached anon_thp file_thp shmem_thp inactive_anon active_anon inactive_file active_file unevictable slab_reclaimable slab_unreclaimable slab workingset_refault_anon workingset_refault_file workingset_activate_anon workingset_nodereclaim pgscan pgsteal pgfault pgmajfault pgrefill pgactivate pgdeactivate pglazyfree pglazyfreed thp_fault_alloc thp_collapse_alloc", Large+i)
	if i == 0 {
		return // the root has no other files
	}
	f[dir+"memory.current"] = fmt.Sprintf("%d\n", Large*4096+i)
	f[dir+"memory.max"] = "max\n"
	f[dir+"cpuset.cpus"], f[dir+"cpuset.mems"] = "\n", "0-3\n"
	for _, what := range []string{"cpu", "io", "memory"} {
		f[dir+what+".pressure"] = fmt.Sprintf("some avg10=1.50 avg60=0.25 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.12 avg300=99.00 total=%d\n", Large+i, i)
	}
	f[dir+"irq.pressure"] = fmt.Sprintf("full avg10=0.00 avg60=0.12 avg300=99.00 total=%d\n", i)
}
