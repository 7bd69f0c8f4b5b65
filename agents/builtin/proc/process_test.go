package proc

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/linuxhosts"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// composedTree makes a tree of files in the formats that the kernel documents. It
// has a shell in a container (100) with a thread (101), a kernel thread (7), and a
// process that has just ended (1234567).
func composedTree(tb testing.TB) (root string) {
	id := strings.Repeat("0123456789abcdef", 4)
	return pmdatest.Tree(tb, map[string]string{
		"proc/sys/kernel/sched_autogroup_enabled": "1\n",
		"proc/tty/drivers":                        "/dev/tty             /dev/tty        5       0 system:/dev/tty\npty_slave            /dev/pts      136 0-1048575 pty:slave\nbroken\n",
		"proc/100/cmdline":                        "/bin/sh\x00-c\x00echo\ta\nb\x1b[31mred\x1b]0;title\x07!\x00",
		"proc/100/stat": "100 (a (b) c) S 1 100 100 34818 -1 4194304 97 2 3 4 200 100 6 7 20 -5 1 0 12345 4096000 250 18446744073709551615 " +
			"94909355249664 94909355269545 140732906566208 11 12 1 2 4096 2147483647 1 0 0 17 3 7 1 50 25 5 94909355285552 0 0 0 0 0 0 0\n",
		"proc/100/status": "Name:\tsh\nUmask:\t0022\nTgid:\t100\nNgid:\t0\nUid:\t0\t4294967294\t2\t3\nGid:\t4\t5\t6\t7\nNStgid:\t100\t7\nNSpid:\t100\t8\nNSpgid:\t100\nNSsid:\t100\n" +
			"VmPeak:\t    3060 kB\nVmSize:\t    3000 kB\nVmRSS:\t    1736 kB\nVmLib:\t    1528 kB\nVmSwap:\t       4 kB\nThreads:\t2\n" +
			"SigPnd:\t0000000000000000\nSigCgt:\t00000000000004e8\nCpus_allowed_list:\t0-1,4\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n",
		"proc/100/statm":         "1000 250 100 5 0 60 0\n",
		"proc/100/schedstat":     "190915636 42776586 790\n",
		"proc/100/io":            "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n",
		"proc/100/smaps_rollup":  "55f8 ---p 00000000 00:00 0     [rollup]\nRss:                1736 kB\nPss:                 258 kB\nLocked:                0 kB\n",
		"proc/100/oom_score":     "666\n",
		"proc/100/autogroup":     "/autogroup-450 nice -3\n",
		"proc/100/cgroup":        "9:name=systemd:/\n3:cpuset:/docker/" + id + "\n0::/\n",
		"proc/100/attr/current":  "unconfined\n",
		"proc/100/wchan":         "do_wait",
		"proc/100/environ":       "HOME=/root\x00A=b c\x00",
		"proc/100/maps":          "1-2 r--p 0 0:0 0 /x\n",
		"proc/100/exe":           "-> /bin/dash",
		"proc/100/cwd":           "-> /tmp",
		"proc/100/fd/0":          "",
		"proc/100/fd/1":          "",
		"proc/100/task/100/stat": "100 (main) R 1\n",
		"proc/100/task/101/stat": "101 (second) R 1\n",
		"proc/101/cmdline":       "/bin/sh\x00",
		"proc/7/cmdline":         "",
		"proc/7/status":          "Name:\tkworker/0:1-events\n",
		"proc/7/stat":            "7 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 1\n",
		"proc/7/autogroup":       "",
		"proc/1234567/":          "",
		"proc/0123/":             "",
		"proc/99999999999/":      "",
		"cg/a/cgroup.procs":      "7\n100\nx\n",
		"cg/a/cgroup.threads":    "7\n100\n101\n",
	})
}

// withoutThread removes the thread from the list of processes, as in a real /proc.
func withoutThread(tb testing.TB, root string) {
	if err := os.RemoveAll(root + "/proc/101"); err != nil {
		tb.Fatal(err)
	}
}

func TestProcess(t *testing.T) {
	root := composedTree(t)
	withoutThread(t, root)
	r := newHarness(t, Options{Root: root, PageSize: 8192, Hertz: 1000})
	if got, want := fmt.Sprint(r.Instances(indomProc)), "[{7 000007 (kworker/0:1-events)} {100 000100 /bin/sh} {1234567 1234567 <exiting>}]"; got != want {
		t.Errorf("instances %s, want %s", got, want)
	}
	r.Want(map[string]string{
		"proc.nprocs":                      "3",
		"proc.runq.sleeping":               "1",
		"proc.runq.swapped":                "1",
		"proc.runq.unknown":                "1",
		"proc.psinfo.pid":                  "7=7 100=100 1234567=1234567",
		"proc.psinfo.psargs":               "7=(kworker/0:1-events) 100=/bin/sh -c echo a bred! 1234567=<exiting>",
		"proc.psinfo.cmd":                  "7=kworker/0:1 100=a (b) c",
		"proc.psinfo.sname":                "7=I 100=S",
		"proc.psinfo.tty":                  "7=0 100=34818",
		"proc.psinfo.ttyname":              "7=? 100=pts/2",
		"proc.psinfo.utime":                "7=0 100=200",
		"proc.psinfo.priority":             "7=20 100=20",
		"proc.psinfo.nice":                 "7=0 100=-5",
		"proc.psinfo.vsize":                "7=0 100=4000",
		"proc.psinfo.rss":                  "7=0 100=2000",
		"proc.psinfo.rss_rlim":             "7=0 100=18014398509481983",
		"proc.psinfo.start_code":           "100=4294967295",
		"proc.psinfo.processor":            "100=3",
		"proc.psinfo.rt_priority":          "100=7",
		"proc.psinfo.policy_s":             "7=NORMAL 100=FIFO",
		"proc.psinfo.delayacct_blkio_time": "100=50",
		"proc.psinfo.guest_time":           "100=25",
		"proc.psinfo.cguest_time":          "100=5",
		"proc.psinfo.environ":              "7= 100=HOME=/root A=b c 1234567=",
		"proc.psinfo.exe":                  "7= 100=/bin/dash 1234567=",
		"proc.psinfo.cwd":                  "7= 100=/tmp 1234567=",
		"proc.psinfo.wchan_s":              "100=do_wait",
		"proc.psinfo.labels":               "100=unconfined",
		"proc.psinfo.cpusallowed":          "100=0-1,4",
		"proc.psinfo.ngid":                 "100=0",
		"proc.psinfo.oom_score":            "100=666",
		"proc.psinfo.cgroups":              "100=name=systemd:/;cpuset:/docker/" + strings.Repeat("0123456789abcdef", 4) + ";:/",
		"proc.id.container":                "100=" + strings.Repeat("0123456789abcdef", 4),
		"proc.id.uid_nm":                   "7=root 100=root",
		"proc.id.euid":                     "100=4294967294",
		"proc.id.euid_nm":                  "7=root 100=",
		"proc.id.gid":                      "100=4",
		"proc.id.fsgid":                    "100=7",
		"proc.namespaces.pid":              "100=100,8",
		"proc.namespaces.envid":            pdu.ErrnoAppVersion.Error(),
		"proc.memory.size":                 "100=8000",
		"proc.memory.vmpeak":               "7=0 100=3060",
		"proc.memory.vmreal":               "7=0 100=1740",
		"proc.memory.vmnonlib":             "7=0 100=212",
		"proc.memory.maps":                 "7= 100=1-2 r--p 0 0:0 0 /x 1234567=",
		"proc.schedstat.run_delay":         "100=42776586",
		"proc.io.cancelled_write_bytes":    "100=7",
		"proc.fd.count":                    "100=2",
		"proc.smaps.pss":                   "100=258",
		"proc.autogroup.enabled":           "1",
		"proc.autogroup.id":                "7=0 100=450",
		"proc.autogroup.nice":              "7=0 100=-3",
		"proc.control.perclient.threads":   "0",
	})
	pmdatest.WriteFile(t, root, "proc/sys/kernel/sched_autogroup_enabled", "0\n")
	r.Want(map[string]string{"proc.autogroup.enabled": "0", "proc.autogroup.nice": ""})
}

// A process may have more KiB of address space than the type of a metric has. A thread has no
// signal at its exit.
func TestLargeProcess(t *testing.T) {
	r := newHarness(t, Options{PageSize: 4096, Root: pmdatest.Tree(t, map[string]string{
		"proc/5/stat":   "5 (x) S 1 5 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 21990414663680 100 1 1 1 1 1 1 0 0 0 0 0 0 0 -1 0 0 7 0 0 0\n",
		"proc/5/statm":  "5368753580 100 50 5 0 5368700000 0\n",
		"proc/5/status": "VmPeak:\t21475014324 kB\nVmSize:\t21475014320 kB\nVmRSS:\t     400 kB\nVmData:\t21474800000 kB\n",
	})})
	r.host.hot.hot.Store(&hotSet{pids: []int32{5}, vars: []vars{{nums: [len(numVars)]float64{varVirtual: 21475014320, varResident: 400}}}})
	const most = "5=4294967295"
	r.Want(map[string]string{
		"proc.memory.vmsize": most, "proc.memory.vmpeak": most, "proc.memory.vmdata": most, "proc.memory.vmrss": "5=400", "proc.memory.size": most,
		"proc.memory.rss": "5=400", "proc.memory.datrss": most, "proc.memory.share": "5=200", "proc.psinfo.vsize": "5=21475014320",
		"hotproc.predicate.virtualsize": most, "hotproc.predicate.residentsize": "5=400",
		"proc.psinfo.exit_signal": "", "proc.psinfo.tty_pgrp": "", "proc.psinfo.policy_s": "5=EXT",
	})
	if got := r.Values("proc.memory.size"); got != most { // from statm
		t.Errorf("alone: %s", got)
	}
}

// A process is found by its process id as a name, with and without leading zeros.
func TestFindByNumber(t *testing.T) {
	r := newHarness(t, Options{Root: composedTree(t)})
	for name, want := range map[string]string{
		"7": "7", "000007": "7", "0100": "100", "000100 /bin/sh": "100", "1234567": "1234567",
		"8": pdu.ErrnoInst.Error(), "sh": pdu.ErrnoInst.Error(), "99999999999999999999": pdu.ErrnoInst.Error(),
	} {
		var in pdu.Instance
		err := r.Do(&pdu.InstanceReq{InDom: pdu.NewInDom(3, indomProc), Inst: pdu.NoInst, Name: name}, &in)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(in.Insts[0].ID)
		}
		if got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

// A fetch parses the fields that its metrics need, and takes numbers from a file that it reads
// anyway: a metric has the same values in a fetch of its own as in one of all metrics.
func TestEachMetricAlone(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, linuxhosts.Processes(linuxhosts.Linux6_12, 2)), PageSize: 4096})
	fetch := func(ids ...pdu.PMID) []pdu.ValueSet {
		var res pdu.Result
		if err := r.Do(&pdu.Fetch{PMIDs: ids}, &res); err != nil {
			t.Fatal(err)
		}
		return res.Sets
	}
	for _, set := range fetch(r.IDs()...) {
		if one := fetch(set.PMID)[0]; !reflect.DeepEqual(one, set) {
			t.Errorf("%v alone: %+v, want %+v", set.PMID, one, set)
		}
	}
}

// Errors of files of a process: only a label is absent if the error is EINVAL, which it is
// without a security module. The files are links to files whose read fails so.
func TestErrors(t *testing.T) {
	const einval, eio = "-> /sys/class/net/lo/speed", "-> /proc/self/mem"
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{
		"proc/5/attr/current": einval, "proc/5/io": einval, "proc/5/statm": eio, "proc/5/wchan": eio,
	})})
	r.Want(map[string]string{
		"proc.psinfo.labels":       "",
		"proc.io.rchar":            pdu.ErrnoEINVAL.Error(),
		"proc.memory.size":         pdu.Errno(-int32(syscall.EIO)).Error(),
		"proc.psinfo.wchan_s":      pdu.Errno(-int32(syscall.EIO)).Error(),
		"proc.schedstat.run_delay": pdu.ErrnoAppVersion.Error(), // the file is absent, and the process exists
	})
}

// The name and the command line are those of the program that runs: that of another process
// with the same number, or after exec. Nothing else is read again.
func TestProgram(t *testing.T) {
	type state struct {
		comm         string
		cmdline      string
		start, stack int
		want         string
	}
	const kernelThread = "" // command line
	for name, states := range map[string][]state{
		"another process":                   {{"alpha", "alpha -x", 1000, 0, "alpha -x"}, {"beta", "/bin/beta --y", 990000, 0, "/bin/beta --y"}},
		"another process, same name":        {{"sh", "sh a", 1000, 5, "sh a"}, {"sh", "sh b", 1001, 5, "sh b"}},
		"exec":                              {{"sh", "sh -c x", 1000, 5, "sh -c x"}, {"x", "x", 1000, 6, "x"}},
		"exec twice":                        {{"sh", "sh", 1000, 5, "sh"}, {"a", "a", 1000, 6, "a"}, {"sh", "sh 2", 1000, 5, "sh 2"}},
		"exec of the same program":          {{"sh", "sh a", 1000, 5, "sh a"}, {"sh", "sh b", 1000, 6, "sh b"}},
		"exec that cannot be seen":          {{"sh", "sh", 1000, 0, "sh"}, {"x", "x", 1000, 0, "sh"}},
		"exec seen later":                   {{"sh", "sh", 1000, 5, "sh"}, {"x", "x", 1000, 0, "sh"}, {"x", "x", 1000, 6, "x"}},
		"no exec":                           {{"sh", "sh", 1000, 5, "sh"}, {"sh", "other", 1000, 0, "sh"}, {"sh", "other", 1000, 5, "sh"}},
		"title":                             {{"nginx", "nginx", 1000, 5, "nginx"}, {"nginx", "nginx: worker", 1000, 5, "nginx"}},
		"comm":                              {{"main", "java", 1000, 5, "java"}, {"renamed", "java x", 1000, 5, "java"}},
		"worker of the kernel":              {{"kworker/0:1", kernelThread, 9, 0, "(kworker/0:1)"}, {"kworker/0:1-events", kernelThread, 9, 0, "(kworker/0:1)"}},
		"program of the kernel":             {{"kworker/u4:0", kernelThread, 1000, 0, "(kworker/u4:0)"}, {"modprobe", "/sbin/modprobe x", 1000, 5, "/sbin/modprobe x"}},
		"zombie":                            {{"sh", "sh -c x", 1000, 5, "sh -c x"}, {"sh", "", 1000, 0, "sh -c x"}},
		"another process is a zombie":       {{"sh", "sh -c x", 1000, 5, "sh -c x"}, {"ls", "", 1001, 0, "(ls)"}},
		"zombie with a name for a terminal": {{"\x1b]0;x\x07a\x1b[2J\tb", "", 1000, 0, "(a b)"}},
		"parentheses and blanks":            {{"a) S 1 (", "a", 1000, 5, "a"}, {"a) S 1 (", "b", 1000, 6, "b"}},
		"another process of a program":      {{"sh", "sh", 1000, 5, "sh"}, {"sh", "sh", 2000, 6, "sh"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			set := func(s state) {
				pmdatest.WriteFile(t, root, "proc/4321/stat", fmt.Sprintf("4321 (%s) S 1 4321 4321 0 -1 4194560 10 0 0 0 5 6 0 0 20 0 1 0 %d 1000000 100 18446744073709551615 1 1 %d 0 0\n", s.comm, s.start, s.stack))
				pmdatest.WriteFile(t, root, "proc/4321/cmdline", strings.ReplaceAll(s.cmdline, " ", "\x00"))
				pmdatest.WriteFile(t, root, "proc/4321/status", "Name:\t"+s.comm+"\nState:\tS (sleeping)\n")
			}
			set(states[0])
			byName, byValue := newHarness(t, Options{Root: root}), newHarness(t, Options{Root: root})
			for i, s := range states {
				set(s)
				first, _, _ := strings.Cut(s.want, " ")
				if got, want := fmt.Sprint(byName.Instances(indomProc)), "[{4321 004321 "+first+"}]"; got != want {
					t.Errorf("%d: instances %s, want %s", i, got, want)
				}
				byValue.Want(map[string]string{"proc.psinfo.psargs": "4321=" + s.want, "proc.psinfo.cmd": "4321=" + pdu.EscapeControls(s.comm, "\t")})
				byName.Want(map[string]string{"proc.psinfo.psargs": "4321=" + s.want})
			}
		})
	}
}

// A child executes another program.
func TestExec(t *testing.T) {
	c := exec.Command("sh", "-c", "read x; exec cat /dev/stdin")
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		c.Wait()
	})
	r := newHarness(t, Options{})
	id := fmt.Sprint(c.Process.Pid)
	has := func(metric, value string) func() bool {
		return func() bool { return strings.Contains(" "+r.Values(metric)+" ", " "+id+"="+value+" ") }
	}
	named := func(command string) bool {
		return strings.Contains(fmt.Sprint(r.Instances(indomProc)), fmt.Sprintf("{%s %06d %s}", id, c.Process.Pid, command))
	}
	testutil.Eventually(t, "the shell runs", has("proc.psinfo.psargs", "sh -c read x; exec cat /dev/stdin"))
	if !named("sh") {
		t.Error("the shell has another name")
	}
	if _, err := fmt.Fprintln(stdin, "x"); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "cat runs, and has its command line", has("proc.psinfo.psargs", "cat /dev/stdin"))
	if !has("proc.psinfo.cmd", "cat")() || !named("cat") {
		t.Error("cat has another name")
	}
}

// Without stat, a command line stays as it was first read, until the process has ended.
func TestNamesDoNotChange(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/5/cmdline": "sh\x00"})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"proc.psinfo.psargs": "5=sh"})
	pmdatest.WriteFile(t, root, "proc/5/cmdline", "top\x00")
	pmdatest.WriteFile(t, root, "proc/6/cmdline", "ls\x00")
	r.Want(map[string]string{"proc.psinfo.psargs": "5=sh 6=ls"})
	if err := os.RemoveAll(root + "/proc/5"); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"proc.psinfo.psargs": "6=ls"})
	pmdatest.WriteFile(t, root, "proc/5/cmdline", "cat\x00")
	r.Want(map[string]string{"proc.psinfo.psargs": "5=cat 6=ls"})
}

func word(n uint32) pdu.Value { return pdu.Value{Word: n} }

func textValue(s string) pdu.Value {
	return pdu.Value{Type: pdu.MetricString, Block: append([]byte(s), 0)}
}

// Clients select threads and control groups by a store.
func TestControl(t *testing.T) {
	root := composedTree(t)
	withoutThread(t, root)
	pmdatest.WriteFile(t, root, "proc/mounts", "cgroup2 /cg cgroup2 rw 0 0\n")
	pmdatest.WriteFile(t, root, "sys/fs/cgroup/cpu/cgroup.procs", "7\n")
	pmdatest.WriteFile(t, root, "home/cgroup.procs", "7\n")
	pmdatest.WriteFile(t, root, "cgroups/cgroup.procs", "7\n")
	r := newHarness(t, Options{Root: root})
	all := func(want string) {
		t.Helper()
		r.Want(map[string]string{"proc.psinfo.pid": want})
	}
	stores := func(name string, v pdu.Value, want error) {
		t.Helper()
		text := ""
		if want != nil {
			text = want.Error()
		}
		if got := r.Store(name, v); got != text {
			t.Errorf("store of %s: %q, want %q", name, got, text)
		}
	}
	all("7=7 100=100 1234567=1234567")
	stores("proc.control.perclient.threads", word(1), nil)
	all("7=7 100=100 101=101 1234567=1234567")
	r.Want(map[string]string{"proc.control.perclient.threads": "1", "proc.control.all.threads": "0", "proc.psinfo.cmd": "7=kworker/0:1 100=main"})
	stores("proc.control.perclient.threads", word(2), pdu.ErrnoBadStore)
	stores("proc.control.perclient.cgroups", textValue("/cg/a"), nil)
	all("7=7 100=100 101=101")
	stores("proc.control.perclient.threads", word(0), nil)
	all("7=7 100=100")
	r.Want(map[string]string{"proc.control.perclient.cgroups": "/cg/a"})
	for _, bad := range []string{"", "cg/a", "/cg/../cg/a", "/cg/a/"} {
		stores("proc.control.perclient.cgroups", textValue(bad), pdu.ErrnoBadStore)
	}
	for dir, want := range map[string]string{"/cg/none": "", "/sys/fs/cgroup/cpu": "7=7", "/home": "", "/cgroups": ""} {
		stores("proc.control.perclient.cgroups", textValue(dir), nil)
		all(want)
	}
	r.setUser(1000, 0)
	stores("proc.control.all.threads", word(1), pdu.ErrnoPermission)
	r.setUser(0, 0)
	stores("proc.control.all.threads", word(1), nil)
	stores("proc.control.all.threads", word(2), pdu.ErrnoBadStore)

	r.setUser(os.Geteuid(), os.Getegid()) // another client
	all("7=7 100=100 101=101 1234567=1234567")
	r.setAttrs(nil) // a client whose user pmcd does not know
	stores("proc.control.all.threads", word(1), pdu.ErrnoPermission)
	stores("proc.control.perclient.threads", word(1), pdu.ErrnoNoContext)
	stores("proc.control.perclient.cgroups", textValue("/cg/a"), pdu.ErrnoNoContext)
}

// The driver of a terminal may come after the agent has looked for it.
func TestTerminalLater(t *testing.T) {
	root := composedTree(t)
	b, err := os.ReadFile(root + "/proc/tty/drivers")
	if err != nil {
		t.Fatal(err)
	}
	pmdatest.WriteFile(t, root, "proc/tty/drivers", "")
	r := newHarness(t, Options{Root: root})
	now := time.Now()
	r.host.names.now = func() time.Time { return now }
	name := func(want string) {
		t.Helper()
		if got := r.Values("proc.psinfo.ttyname"); !strings.Contains(got, "100="+want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	name("?")
	pmdatest.WriteFile(t, root, "proc/tty/drivers", string(b))
	now = now.Add(2 * userNamesTTL)
	name("pts/2")
}

// PCP's user may store the setting for all clients, as a rule of pmie does. Its name is that of
// pcp.conf. Without one it is the user of pmcd.
func TestStoreAllThreads(t *testing.T) {
	const nobody, daemon = 65534, 1 // as in all distributions
	for _, tt := range []struct {
		name    string
		pcpUser string
		own     int // the user of the agent
		client  int
		ok      bool
	}{
		{"root", "nobody", 0, 0, true},
		{"PCP_USER", "nobody", 0, nobody, true},
		{"PCP_USER, and the agent is not root's", "nobody", daemon, nobody, true},
		{"the agent's user beside PCP_USER", "nobody", daemon, daemon, false},
		{"another user", "nobody", 0, daemon, false},
		{"the agent's user without PCP_USER", "", daemon, daemon, true},
		{"the agent's user if PCP_USER does not exist", "no such user", daemon, daemon, true},
		{"another user without PCP_USER", "", daemon, nobody, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PCP_USER", tt.pcpUser)
			if tt.own == 0 && tt.client != 0 {
				testutil.NeedRoot(t) // the agent becomes the client
			}
			r := newHarness(t, Options{Root: composedTree(t)})
			if tt.own != 0 {
				r.host.ownCreds.uid = tt.own
			}
			r.setUser(tt.client, tt.client)
			want := ""
			if !tt.ok {
				want = pdu.ErrnoPermission.Error()
			}
			if got := r.Store("proc.control.all.threads", word(1)); got != want {
				t.Errorf("store: %q, want %q", got, want)
			}
			if got := r.host.Threads; got != tt.ok {
				t.Errorf("threads: %v, want %v", got, tt.ok)
			}
			for _, name := range []string{"hotproc.control.refresh", "acct.control.lifetime"} { // root's
				if got := r.Store(name, word(9)); (got == "") != (tt.client == 0) {
					t.Errorf("store of %s: %q", name, got)
				}
			}
		})
	}
}

// Large texts are not kept between requests: a user can have one in many processes
// that share its memory.
func TestLargeRecords(t *testing.T) {
	root := composedTree(t)
	env := "A=" + strings.Repeat("x", 100<<10)
	for pid := range 20 {
		pmdatest.WriteFile(t, root, fmt.Sprintf("proc/%d/environ", 2000+pid), env)
	}
	r := newHarness(t, Options{Root: root})
	for range 2 {
		if got := strings.Count(r.Values("proc.psinfo.environ"), env); got != 20 {
			t.Fatalf("%d environments", got)
		}
		if s := r.host.procs.indom.idle.Value(); s != nil && cap(s[formatEnviron].text) > 2*len(env) {
			t.Errorf("%d bytes are kept", cap(s[formatEnviron].text))
		}
	}
}

// A process is in the container of its group, or of the nearest group above it that is a
// container's.
func TestContainerID(t *testing.T) {
	id, inner := strings.Repeat("0123456789abcdef", 4), strings.Repeat("b", 64)
	for path, want := range map[string]string{
		"/docker/" + id:                                                                      id,
		"/docker/" + id + "/init.scope":                                                      id,
		"/docker/" + id + "/docker/" + inner:                                                 inner,
		"/machine.slice/libpod-" + id + ".scope/container":                                   id, // as crun makes it
		"/user.slice/x/libpod-" + id + ".scope/container/y/z":                                id,
		"/machine.slice/libpod-" + id + ".scope/container/libpod-conmon-" + inner + ".scope": id,
		"/k.slice/crio-" + id + ".scope/container":                                           id,
		"/kubepods/besteffort/pod1/" + id:                                                    id,
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope":                id,
		"/x/kubepods-pod1.slice:cri-containerd:" + id:                                        id,
		"/lxc.payload.box/docker/" + id:                                                      id,
		"/lxc.payload.box/init.scope":                                                        "",
		"/lxc/" + strings.Repeat("box", 30):                                                  "",
		"/machine.slice/libpod-conmon-" + id + ".scope":                                      "",
		"/system.slice/crio-conmon-" + id + ".scope":                                         "",
		"/": "", "": "", "x": "",
	} {
		if got := containerID(path); got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
		// The last line is that of version 2, as on hybrid hosts.
		for _, removed := range []string{"", " (deleted)"} { // the group of a zombie may be
			r := record{new(sheet), 0}
			r.begin(0, 1, 2)
			parseCgroup(r, []byte("9:name=systemd:/\n0::"+path+removed+"\n"))
			if got := string(r.string(1)); got != want {
				t.Errorf("a process with the group %q%s is in %q, want %q", path, removed, got, want)
			}
		}
	}
}
