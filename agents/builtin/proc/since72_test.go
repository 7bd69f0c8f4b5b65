package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// gpuText is a file of fdinfo whose sizes are n, n+1 and so on.
func gpuText(driver, device string, id, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pos:\t0\nflags:\t02100002\ndrm-driver:\t%s\ndrm-client-id:\t%d\ndrm-pdev:\t%s\n", driver, id, device)
	names := gpuFields
	for i, name := range names {
		fmt.Fprintf(&b, "%s:\t%d KiB\n", name, n+i)
	}
	return b.String() + "drm-engine-gfx:\t17 ns\n"
}

// since72 has the files of the metrics that are new in PCP 6.3 to 7.2: those of a
// process with GPUs (100), of one without (200), and of a thread of the kernel (7).
func since72() map[string]string {
	files := map[string]string{
		"proc/7/fd/":            "",
		"sys/module/amdgpu/":    "",
		"proc/7/numa_maps":      "",
		"proc/200/fd/0":         "-> /dev/null",
		"proc/100/smaps_rollup": "55f8-7ffe ---p 00000000 00:00 0     [rollup]\nRss:                1736 kB\nPss:                 258 kB\nPss_Dirty:           112 kB\n",
		"proc/100/numa_maps": "558b default file=/usr/bin/a\\040heap mapped=2 N0=2 kernelpagesize_kB=4\n" +
			"558c bind:0 heap anon=300 dirty=4 active=0 N0=200 N2=100 kernelpagesize_kB=4\n" +
			"558d default stack anon=3 N2=3 kernelpagesize_kB=64\n" +
			"558e default file=/anon_hugepage huge anon=3 N0=2 N10=1 kernelpagesize_kB=2048\n" +
			"558f default huge N10=1 kernelpagesize_kB=1048576\n" +
			"5590 default anon=1 N0=512\n" +
			"5591 default N=1 Nx=1 N0=y N99999=1 N0\n\nx\n",
		// The last two lines are as before Linux 4.0.
		"proc/200/numa_maps": "558b default file=/usr/bin/a mapped=2 N0=1 kernelpagesize_kB=4\n" +
			"558c default file=/anon_hugepage\\040(deleted) huge anon=3 N0=3\n558d default stack:1234 anon=128 N0=128\n",
		"proc/meminfo": "HugePages_Total:       3\nHugepagesize:       2048 kB\n",
	}
	for fd, text := range map[int]string{
		3:  gpuText("amdgpu", "0000:0c:00.0", 7, 100),
		4:  gpuText("amdgpu", "0000:0c:00.0", 7, 100), // the same open file
		5:  gpuText("amdgpu", "0000:0d:00.0", 7, 1000),
		6:  gpuText("amdgpu", "0000:0c:00.0", 8, 10000),
		7:  gpuText("i915", "0000:00:02.0", 9, 100000),
		8:  gpuText("amdgpu", "", 0, 0)[:60], // without an id
		10: "drm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-memory-vram:\t2 MiB\ndrm-memory-gtt:\t1 GiB\ndrm-memory-cpu:\t4096\namd-evicted-vram: x KiB\namd-requested-gtt: 5 pages\n",
	} {
		files[fmt.Sprintf("proc/100/fdinfo/%d", fd)] = text
		files[fmt.Sprintf("proc/100/fd/%d", fd)] = "-> /dev/dri/renderD128"
	}
	files["proc/100/fd/0"], files["proc/100/fdinfo/0"] = "-> /dev/pts/1", gpuText("amdgpu", "0000:0e:00.0", 1, 7) // is not read
	files["proc/100/fd/9"] = "-> /dev/dri/renderD129"                                                             // was closed
	return files
}

// Each metric that is new in PCP 6.3 to 7.2 has its value.
func TestSince72(t *testing.T) {
	want := map[string]string{
		"proc.smaps.pss_dirty": "100=112",

		"proc.fdinfo.drm_memory_cpu":             "100=11104 200=0",
		"proc.fdinfo.drm_memory_gtt":             "100=1059679 200=0",
		"proc.fdinfo.drm_memory_vram":            "100=13154 200=0",
		"proc.fdinfo.drm_shared_cpu":             "100=11109 200=0",
		"proc.fdinfo.drm_shared_gtt":             "100=11112 200=0",
		"proc.fdinfo.drm_shared_vram":            "100=11115 200=0",
		"proc.fdinfo.amd_evicted_visible_vram":   "100=11118 200=0",
		"proc.fdinfo.amd_evicted_vram":           "100=11121 200=0",
		"proc.fdinfo.amd_memory_visible_vram":    "100=11124 200=0",
		"proc.fdinfo.amd_requested_gtt":          "100=11127 200=0",
		"proc.fdinfo.amd_requested_visible_vram": "100=11130 200=0",
		"proc.fdinfo.amd_requested_vram":         "100=11133 200=0",

		"proc.delayacct.cpu_time":    "7=7001 100=100001 200=200001",
		"proc.delayacct.blkio_time":  "7=7002 100=100002 200=200002",
		"proc.delayacct.swapin_time": "7=7003 100=100003 200=200003",
	}
	for name, value := range maps.Clone(want) {
		want["hot"+name] = value
	}
	maps.Copy(want, map[string]string{
		"proc.numa_maps.hugepage": "100=node0:4.00,node2:0.00,node10:1026.00 200=node0:6.00",
		"proc.numa_maps.heap":     "100=node0:0.78,node2:0.39,node10:0.00 200=node0:0.00",
		"proc.numa_maps.stack":    "100=node0:0.00,node2:0.19,node10:0.00 200=node0:1.00",
		"proc.numa_maps.private":  "100=node0:4.01,node2:0.00,node10:0.00 200=node0:0.00",
	})
	if len(want) != 36 {
		t.Errorf("%d metrics", len(want))
	}
	r := newHarness(t, Options{Root: pmdatest.Tree(t, since72()), PageSize: 8192})
	r.host.delays = func(tid int32) (d [numDelays]uint64, ok bool) {
		n := uint64(tid) * 1000
		return [numDelays]uint64{n + 1, n + 2, n + 3}, true
	}
	r.host.hot.hot.Store(&hotSet{pids: []int32{7, 100, 200}})
	r.Want(want)

	// Without the driver no descriptor is looked at.
	if err := os.Remove(r.host.Root + "/sys/module/amdgpu"); err != nil {
		t.Fatal(err)
	}
	r.host.maxFDs = 0
	r.Want(map[string]string{"proc.fdinfo.drm_memory_vram": "100=0 200=0"})

	// Other users do not get them.
	r.host.ownCreds = credentials{uid: 1000, gid: 1000}
	r.setUser(1001, 1000)
	for name := range want {
		want[name] = ""
	}
	r.Want(want)
}

// The values are those of the kernel.
func TestSince72OfKernel(t *testing.T) {
	r := newHarness(t, Options{})
	pid := strconv.Itoa(os.Getpid())
	own := func(name string) string {
		for word := range strings.FieldsSeq(r.Values(name)) {
			if inst, value, _ := strings.Cut(word, "="); inst == pid {
				return value
			}
		}
		return ""
	}
	if got := own("proc.fdinfo.drm_memory_vram"); got != "0" {
		t.Errorf("fdinfo is %q", got)
	}
	smaps, _ := os.ReadFile("/proc/self/smaps_rollup")
	if got := own("proc.smaps.pss_dirty"); (got == "") == strings.Contains(string(smaps), "\nPss_Dirty:") {
		t.Errorf("pss_dirty is %q, the kernel has\n%s", got, smaps)
	}
	if _, err := os.Stat("/proc/self/numa_maps"); err == nil {
		total := 0.0
		got := own("proc.numa_maps.private")
		for part := range strings.SplitSeq(got, ",") {
			var node int
			var mib float64
			if n, err := fmt.Sscanf(part, "node%d:%f", &node, &mib); n != 2 || err != nil {
				t.Errorf("numa_maps is %q", got)
			}
			total += mib
		}
		if total == 0 {
			t.Errorf("numa_maps is %q, without memory", got)
		}
	}
}

// The kernel tells root the delays of threads. The time of waiting for a CPU is also
// in schedstat.
func TestTaskstats(t *testing.T) {
	testutil.NeedCapability(t, unix.CAP_NET_ADMIN)
	if _, err := os.Stat("/proc/sys/kernel/task_delayacct"); err != nil {
		testutil.Missing(t, "the kernel has no delay accounting")
	}
	s := newTaskstats()
	defer s.close()
	runDelay := func() uint64 {
		b, err := os.ReadFile("/proc/1/schedstat")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(strings.Fields(string(b))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := runDelay()
	d, ok := s.of(1)
	after := runDelay()
	if s.missing {
		testutil.Missing(t, "no taskstats in this network name space")
	}
	if !ok || d[delayCPU] < before || d[delayCPU] > after {
		t.Errorf("got %v, %v, want a delay from %d to %d", d, ok, before, after)
	}
	if d, ok := s.of(math.MaxInt32); ok {
		t.Errorf("a process that does not exist has %v", d)
	}
	if d2, ok := s.of(1); !ok || d2[delayCPU] < d[delayCPU] {
		t.Errorf("after an error: %v, %v", d2, ok)
	}

	r := newHarness(t, Options{})
	if got := r.Values("proc.delayacct.cpu_time"); !strings.Contains(" "+got, " 1=") {
		t.Errorf("the agent has %q", got)
	}
	if r.host.taskstats.fd >= 0 {
		t.Error("the socket is open after the request")
	}
	// A user without CAP_NET_ADMIN gets none, and root gets them again.
	r.setUser(65534, 65534)
	r.Want(map[string]string{"proc.delayacct.cpu_time": ""})
	r.setUser(0, 0)
	if got := r.Values("proc.delayacct.cpu_time"); !strings.Contains(" "+got, " 1=") {
		t.Errorf("after a client that is not root the agent has %q", got)
	}
}

// taskstatsReply composes a reply of the kernel.
func taskstatsReply(seq uint32, stats []byte) []byte {
	e := binary.NativeEndian
	attr := func(typ uint16, value []byte) []byte {
		b := e.AppendUint16(nil, uint16(4+len(value)))
		b = append(e.AppendUint16(b, typ), value...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		return b
	}
	body := append(attr(1, []byte{1, 0, 0, 0}), append(attr(6, nil), attr(taskstatsTypeStats, stats)...)...)
	body = attr(taskstatsTypeAggrPID|0x8000, body)
	b := e.AppendUint32(nil, uint32(20+len(body)))
	b = e.AppendUint16(b, 0x18)
	b = e.AppendUint16(b, 0)
	b = e.AppendUint32(b, seq)
	b = e.AppendUint32(b, 0)
	return append(append(b, 2, 1, 0, 0), body...)
}

// The reply of a kernel is parsed, and a malformed one is refused.
func TestTaskstatsReply(t *testing.T) {
	stats := make([]byte, 80)
	for i := range 10 {
		binary.NativeEndian.PutUint64(stats[8*i:], uint64(100+i))
	}
	parse := func(b []byte, seq uint32) (string, error) {
		attrs, err := netlinkReply(b, seq)
		if err != nil {
			return "", err
		}
		d, ok := parseTaskstats(attrs)
		return fmt.Sprint(d, ok), nil
	}
	good := taskstatsReply(5, stats)
	if got, err := parse(good, 5); got != "[103 105 107] true" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := parse(good, 6); !errors.Is(err, syscall.EBADMSG) {
		t.Errorf("a reply to another request: %v", err)
	}
	if got, err := parse(taskstatsReply(5, stats[:60]), 5); got != "[0 0 0] false" || err != nil {
		t.Errorf("a short structure: %s, %v", got, err)
	}
	failed := slices.Clone(good)
	binary.NativeEndian.PutUint16(failed[4:], syscall.NLMSG_ERROR)
	for errno, want := range map[syscall.Errno]error{syscall.EPERM: syscall.EPERM, 0: syscall.EBADMSG} {
		binary.NativeEndian.PutUint32(failed[16:], uint32(-int32(errno)))
		if _, err := parse(failed, 5); !errors.Is(err, want) {
			t.Errorf("error %d: %v", int(errno), err)
		}
	}
	for n := range good { // a length that is too large or too small must not matter
		_, _ = parse(good[:n], 5)
		for _, c := range []byte{0, 1, 3, 5, 255} {
			b := slices.Clone(good)
			b[n] = c
			_, _ = parse(b, 5)
		}
	}
}

// A process with very many descriptors or mappings has no values, and no cost beyond
// the limits.
func TestLargeProcesses(t *testing.T) {
	root := pmdatest.Tree(t, since72())
	line := "5590 default file=" + strings.Repeat("x", 4000) + " N0=1 kernelpagesize_kB=4\n"
	pmdatest.WriteFile(t, root, "proc/100/numa_maps", strings.Repeat(line, maxNUMAMaps/len(line)+1))
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{"proc.fdinfo.drm_memory_vram": "100=13154 200=0", "proc.numa_maps.private": "200=node0:0.00"})
	r.host.maxFDs = 8 // process 100 has nine
	r.Want(map[string]string{"proc.fdinfo.drm_memory_vram": "200=0"})
	if n := cap(r.host.fds); n > 16 {
		t.Errorf("memory for %d descriptors", n)
	}
}

// Descriptors that are listed are places where a fetch can end.
func TestManyDescriptors(t *testing.T) {
	root := composedTree(t)
	withoutThread(t, root)
	r := newHarness(t, Options{Root: root})
	fetch := func() (looks int) {
		ctx := testutil.OnErr(t.Context(), func() { looks++ })
		var w pdu.ResultWriter
		w.Reset(nil, 0)
		if err := r.Agent.Fetch(ctx, &agents.FetchRequest{PMIDs: []pdu.PMID{r.ID("proc.fd.count")}, Profile: &pdu.Profile{}}, &w); err != nil {
			t.Fatal(err)
		}
		return looks
	}
	fetch()
	few := fetch()
	for i := range 640 {
		if err := os.Symlink("/dev/null", fmt.Sprintf("%s/proc/100/fd/%d", root, 1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	if many := fetch(); many < few+10 {
		t.Errorf("%d looks at the context, with few descriptors %d", many, few)
	}
	r.Want(map[string]string{"proc.fd.count": "100=642"})
}

// A fetch that ends early ends in the middle of descriptors and mappings.
func TestLargeProcessesEndEarly(t *testing.T) {
	root := pmdatest.Tree(t, since72())
	for i := range 400 {
		if err := os.Symlink("/dev/null", fmt.Sprintf("%s/proc/100/fd/%d", root, 1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	pmdatest.WriteFile(t, root, "proc/100/numa_maps", strings.Repeat("5590 default N0=1 kernelpagesize_kB=4\n", 400))
	for _, name := range []string{"proc.fdinfo.drm_memory_vram", "proc.numa_maps.heap"} {
		r := newHarness(t, Options{Root: root})
		calls := 0
		ctx, cancel := context.WithCancel(t.Context())
		ctx = testutil.OnErr(ctx, func() {
			if calls++; calls == 5 {
				cancel()
			}
		})
		var w pdu.ResultWriter
		w.Reset(nil, 0)
		err := r.Agent.Fetch(ctx, &agents.FetchRequest{PMIDs: []pdu.PMID{r.ID(name)}, Profile: &pdu.Profile{}}, &w)
		if !errors.Is(err, context.Canceled) || calls != 5 {
			t.Errorf("%s: %v after %d looks at the context", name, err, calls)
		}
	}
}
