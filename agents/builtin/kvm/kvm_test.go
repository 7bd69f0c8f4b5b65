package kvm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent that reads a tree of files, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	host *host
	log  bytes.Buffer
}

// newHarness returns an agent that reads debug, trace, lockdown and kvm.conf below
// root.
func newHarness(tb testing.TB, root string, cpus int) *harness {
	tb.Helper()
	r := new(harness)
	o := Options{
		Conf: root + "/kvm.conf", Debugfs: root + "/debug", Tracefs: root + "/trace", Lockdown: root + "/lockdown",
		CPUs: cpus, Log: slog.New(serve.NewHandler(&r.log, "pmda", slog.LevelInfo)),
	}
	r.host = newHost(95, o)
	a, err := r.host.agent()
	if err != nil {
		tb.Fatal(err)
	}
	fixed, _ := r.host.metrics()
	r.Harness = pmdatest.New(tb, 95, a, fixed)
	for i, name := range append([]string{"count"}, r.host.tracePoints...) {
		m := pmda.Metric{Cluster: 1, Item: i, Name: "kvm.trace." + name, Type: pdu.Metric64}
		if i > 0 {
			m.InDom = new(pmda.InDom)
		}
		r.Metrics[m.Name] = m
	}
	return r
}

func TestDescribed(t *testing.T) {
	r := newHarness(t, t.TempDir(), 1)
	// The names of trace points depend on kvm.conf and come from the agent.
	maps.DeleteFunc(r.Metrics, func(name string, _ pmda.Metric) bool { return strings.HasPrefix(name, "kvm.trace.") })
	r.CheckNamesAndHelp("../../../etc/root", r.Agent)
}

func TestAgent(t *testing.T) {
	r := newHarness(t, pmdatest.Tree(t, map[string]string{"debug/kvm/exits": "1\n"}), 2)
	r.CheckAgent()
}

func TestCounters(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"debug/kvm/exits": "12\n", "debug/kvm/guest_mode": "18446744073709551615\n", "debug/kvm/pf_guest": "x\n",
		"debug/kvm/invlpg": "", "debug/kvm/tlb_flush/": "", "debug/kvm/1234-5/exits": "99\n",
	})
	r := newHarness(t, root, 1)
	r.Want(map[string]string{
		"kvm.exits": "12", "kvm.guest_mode": "18446744073709551615", "kvm.pf_guest": "", "kvm.invlpg": "", "kvm.tlb_flush": "",
		"kvm.largepages": "", "kvm.trace.count": "5", "kvm.trace.kvm_exit": "",
	})
	pmdatest.WriteFile(t, root, "lockdown", "none [integrity] confidentiality\n")
	r = newHarness(t, root, 1)
	denied := pdu.ErrnoPermission.Error()
	r.Want(map[string]string{"kvm.exits": denied, "kvm.trace.count": denied, "kvm.trace.kvm_exit": denied})
	if got := r.log.String(); strings.Count(got, "locked down") != 1 {
		t.Errorf("log: %s", got)
	}
}

// An agent that is not root returns PM_ERR_PERMISSION.
func TestUnprivileged(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	root := pmdatest.Tree(t, map[string]string{"debug/kvm/exits": "12\n"})
	if err := os.Chmod(root+"/debug/kvm/exits", 0); err != nil {
		t.Fatal(err)
	}
	newHarness(t, root, 1).Want(map[string]string{"kvm.exits": pdu.ErrnoPermission.Error()})
}

// A fakePerf replaces the kernel's counters of trace points. The value of a counter
// is 100 times the CPU plus the id of the trace point.
type fakePerf struct {
	t       *testing.T
	groups  map[int][]uint64 // values, by descriptor of the group leader
	fail    func(id uint64, cpu int) error
	shortBy int // number of bytes that a read lacks; -1: reads fail
}

func (p *fakePerf) open(id uint64, cpu, group int) (int, error) {
	if err := p.fail(id, cpu); err != nil {
		return -1, err
	}
	fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	if group < 0 {
		group = fd
		delete(p.groups, fd) // the number was used before
	}
	p.groups[group] = append(p.groups[group], 100*uint64(cpu)+id)
	return fd, nil
}

func (p *fakePerf) read(fd int, b []byte) (int, error) {
	values := p.groups[fd]
	if p.shortBy < 0 {
		return -1, syscall.EIO
	}
	out := binary.NativeEndian.AppendUint64(nil, uint64(len(values)))
	for _, v := range values {
		out = binary.NativeEndian.AppendUint64(out, v)
	}
	return copy(b, out[:len(out)-p.shortBy]), nil
}

func TestTrace(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"kvm.conf":                          "[trace]\none\ntwo # no name\ngone\n\n[other]\nnot\n[dynamic]\nthree\none\ncount\n3d\n[paths]\ntracefs=" + "{root}/events-are-here extra\n",
		"events-are-here/events/kvm/one/id": "7\n", "events-are-here/events/kvm/three/id": "9\n",
	})
	b, err := os.ReadFile(root + "/kvm.conf")
	if err != nil {
		t.Fatal(err)
	}
	pmdatest.WriteFile(t, root, "kvm.conf", strings.Replace(string(b), "{root}", root, 1))
	start := func(fail func(id uint64, cpu int) error) (*harness, *fakePerf) {
		r := newHarness(t, root, 3)
		p := &fakePerf{t: t, groups: map[int][]uint64{}, fail: fail}
		r.host.trace.perfOpen, r.host.trace.perfRead = p.open, p.read
		return r, p
	}
	r, p := start(func(_ uint64, cpu int) error {
		if cpu == 1 {
			return syscall.ENODEV // the CPU is offline
		}
		return nil
	})
	values := map[string]string{
		"kvm.trace.count": "3", "kvm.trace.one": "cpu0=7 cpu2=207", "kvm.trace.three": "cpu0=9 cpu2=209", "kvm.trace.gone": "",
	}
	r.Want(values)
	if got := fmt.Sprint(r.Instances(0)); got != "[{0 cpu0} {2 cpu2}]" {
		t.Error(got)
	}
	if got := r.Labels(pdu.LabelInstances, 0); !slices.Equal(got, []string{`{"cpu":0}`, `{"cpu":2}`}) {
		t.Error(got)
	}
	if got := strings.Count(r.log.String(), "ignoring trace point"); got != 4 {
		t.Errorf("%d warnings: %s", got, &r.log)
	}
	for _, broken := range []int{-1, 1, 8, 24} {
		p.shortBy = broken
		r.Want(map[string]string{"kvm.trace.one": "", "kvm.trace.three": ""})
	}
	p.shortBy = 0
	r.Want(values)
	fds := slices.Clone(r.host.trace.fds)
	if len(fds) != 4 {
		t.Errorf("%d descriptors", len(fds))
	}
	r.Close()
	for _, fd := range fds {
		if err := syscall.Fstat(fd, new(syscall.Stat_t)); err != syscall.EBADF {
			t.Errorf("descriptor %d is open: %v", fd, err)
		}
	}

	// If descriptors run out there are no instances, and all descriptors are closed.
	r, p = start(func(_ uint64, cpu int) error {
		if cpu == 2 {
			return syscall.EMFILE
		}
		return nil
	})
	r.Want(map[string]string{"kvm.trace.count": "3", "kvm.trace.one": ""})
	for fd := range p.groups {
		if err := syscall.Fstat(fd, new(syscall.Stat_t)); err != syscall.EBADF {
			t.Errorf("descriptor %d is open: %v", fd, err)
		}
	}

	asked := 0
	r, _ = start(func(uint64, int) error {
		asked++
		return syscall.EACCES
	})
	r.Want(map[string]string{"kvm.trace.count": "3", "kvm.trace.one": ""})
	r.Want(map[string]string{"kvm.trace.one": ""})
	if got := strings.Count(r.log.String(), "kvm.trace has no values"); got != 1 || asked != 1 {
		t.Errorf("%d calls of perf_event_open, %d warnings: %s", asked, got, &r.log)
	}
}

// Trace points are counted when the module kvm, tracefs or a CPU comes later, and are tried again
// after an error. A kernel that is locked down later is noticed.
func TestTraceLater(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"kvm.conf": "[trace]\none\ntwo\n"})
	r := newHarness(t, root, 2)
	var failure error
	opened := 0
	p := &fakePerf{t: t, groups: map[int][]uint64{}, fail: func(uint64, int) error { opened++; return failure }}
	now := time.Now()
	r.host.trace.perfOpen, r.host.trace.perfRead, r.host.trace.now = p.open, p.read, func() time.Time { return now }
	want := func(one, two string) {
		t.Helper()
		r.Want(map[string]string{"kvm.trace.one": one, "kvm.trace.two": two})
	}
	want("", "")
	pmdatest.WriteFile(t, root, "trace/events/kvm/one/id", "7\n")
	want("cpu0=7 cpu1=107", "")
	want("cpu0=7 cpu1=107", "")
	if opened != 2 {
		t.Errorf("perf_event_open was called %d times, want 2", opened)
	}
	pmdatest.WriteFile(t, root, "trace/events/kvm/two/id", "8\n")
	want("cpu0=7 cpu1=107", "cpu0=8 cpu1=108")
	r.host.trace.online = []byte("of before")
	opened = 0
	want("cpu0=7 cpu1=107", "cpu0=8 cpu1=108")
	if opened != 4 {
		t.Errorf("perf_event_open was called %d times for other CPUs, want 4", opened)
	}
	if err := os.RemoveAll(root + "/trace"); err != nil {
		t.Fatal(err)
	}
	want("", "")

	failure = syscall.EMFILE
	pmdatest.WriteFile(t, root, "trace/events/kvm/one/id", "9\n")
	want("", "")
	failure = nil
	want("", "")
	now = now.Add(retryTime)
	want("cpu0=9 cpu1=109", "")
	if got := strings.Count(r.log.String(), "kvm.trace has no values"); got != 1 {
		t.Errorf("%d warnings: %s", got, &r.log)
	}

	pmdatest.WriteFile(t, root, "lockdown", "none [integrity] confidentiality\n")
	want(pdu.ErrnoPermission.Error(), pdu.ErrnoPermission.Error())
}

// A trace point of the kernel is counted.
func TestRealTrace(t *testing.T) {
	const point = "/sys/kernel/tracing/events/sched/sched_switch/id"
	id, err := os.ReadFile(point)
	if err != nil {
		t.Skip(err)
	}
	root := pmdatest.Tree(t, map[string]string{"kvm.conf": "[trace]\nsched_switch\n", "trace/events/kvm/sched_switch/id": string(id)})
	r := newHarness(t, root, 0)
	before := r.Values("kvm.trace.sched_switch")
	if before == "" {
		t.Skipf("%s", &r.log)
	}
	if n := len(r.Instances(0)); n < 1 || n > r.host.trace.cpus {
		t.Errorf("%d instances", n)
	}
	if err := syscall.Nanosleep(&syscall.Timespec{Nsec: 1}, nil); err != nil { // forces a context switch
		t.Fatal(err)
	}
	if after := r.Values("kvm.trace.sched_switch"); after == before {
		t.Errorf("after a context switch the values are still %s", after)
	}
}

func FuzzConf(f *testing.F) {
	f.Add("# x\n[paths]\ndebugfs=/d\ntracefs = /x\nlockdown=/l y\n[trace]\nkvm_exit\n a-b\n[x]\n")
	f.Add(defaultConf)
	f.Fuzz(func(t *testing.T, text string) {
		c, wrong := parseConf(text)
		if len(c.tracePoints) > maxTracePoints || len(c.tracePoints)+len(wrong) > strings.Count(text, "\n")+1 {
			t.Errorf("%q has %d points, %d wrong", text, len(c.tracePoints), len(wrong))
		}
		h := &host{conf: c, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
		h.trace = newTraces(h, 1)
		fixed, tree := h.metrics()
		a, err := pmda.New(pmda.Config{Name: "kvm", Domain: 95, Metrics: fixed, Subtrees: []*pmda.Subtree{tree}})
		if err != nil {
			t.Fatal(err)
		}
		names, err := a.(agents.Namer).Traverse(t.Context(), agents.Origin{}, "kvm.trace")
		if err != nil || len(names) != len(c.tracePoints)+1 {
			t.Errorf("%q gives %d names, %v", text, len(names), err)
		}
	})
}
