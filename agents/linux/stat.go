package linux

import (
	"bytes"
	"context"
	"strconv"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"github.com/prometheus/procfs"
)

// stat is /proc/stat, proc(5). Its first lines are the times of all CPUs and
// of each that is online:
//
//	cpu  378542 346378 300480 1176914 2234 0 21734 246 0 0
//	cpu0 187658 173415 147479 593093 540 0 10423 116 0 0
type stat struct {
	file   *file
	hertz  uint64
	all    cpuTimes
	lines  map[string]*fact // the first numbers of others
	cpus   []*cpu           // by number; nil if it was never online
	online int
	source *pmda.Source
	indom  *pmda.InDom
}

// Places of the numbers in a line, in ticks.
const (
	user = iota
	nice
	system
	idle
	iowait
	irq
	softirq
	steal
	guest
	guestNice

	newTimes = iowait // the first that older kernels lack
)

// cpuTimes are a line. user and nice have the time of guests in them.
type cpuTimes struct{ record }

// A cpu is an instance of the domain of CPUs.
type cpu struct {
	num    int
	name   string // cpu0
	node   int    // -1 if it is not known
	online bool
	times  cpuTimes
	info   cpuInfo // of /proc/cpuinfo
	freq   frequency
	net    *procfs.SoftnetStat // nil if it is not known
}

// maxCPU is the highest number of a CPU that is believed, far above NR_CPUS.
const maxCPU = 1<<16 - 1

func newStat(h *host) *stat {
	s := &stat{file: h.file("proc/stat"), hertz: h.Hertz, lines: make(map[string]*fact)}
	s.source = &pmda.Source{Read: s.read}
	s.indom = &pmda.InDom{
		Serial: indomCPU,
		Insts:  s,
		Source: s.source,
		Labels: pmda.Labels{"device_type": "cpu", "indom_name": "per cpu"},
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"cpu": i.ID}, nil
		},
	}
	return s
}

func (s *stat) read(context.Context, *pmda.Request) error {
	b, err := s.file.read()
	s.parse(b)
	return err
}

func (s *stat) parse(b []byte) {
	s.all.words, s.online = 0, 0
	for _, c := range s.cpus {
		if c != nil {
			c.online = false
		}
	}
	for bytes.HasPrefix(b, []byte("cpu")) { // those of CPUs come first
		var line []byte
		line, b = cutLine(b)
		word, rest := field(line)
		if len(word) == 3 {
			s.all.set(rest)
		} else if c := s.cpu(word[3:]); c != nil && !c.online && c.times.set(rest) {
			c.online = true
			s.online++
		}
	}
	for _, f := range s.lines {
		*f = fact{}
	}
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		word, rest := field(line)
		if f := s.lines[string(word)]; f != nil {
			f.set(rest)
		}
	}
	// A kernel for one CPU has no line for it.
	if c := s.cpu([]byte{'0'}); s.online == 0 && s.all.words > 0 {
		c.times, c.online, s.online = s.all, true, 1
	}
}

// cpu returns the CPU with a number, nil if that is none.
func (s *stat) cpu(num []byte) *cpu {
	n, ok := uintOf(num)
	if !ok || n > maxCPU {
		return nil
	}
	for len(s.cpus) <= int(n) {
		s.cpus = append(s.cpus, nil)
	}
	if s.cpus[n] == nil {
		s.cpus[n] = &cpu{num: int(n), name: "cpu" + strconv.Itoa(int(n)), node: -1}
	}
	return s.cpus[n]
}

// Each implements pmda.Instances: CPUs that are online.
//
// C differs: it knows the CPUs that were there when it started.
func (s *stat) Each(yield func(inst int32, name string, data any) bool) {
	for i, c := range s.cpus {
		if c != nil && c.online && !yield(int32(i), c.name, c) {
			return
		}
	}
}

// waitSlop is how far iowait may seem to go back, in ticks: the kernel's
// bookkeeping of it is not exact (proc(5)).
const waitSlop = 100

// set sets c to what its line has, and reports whether that is anything. iowait
// does not go back by less than waitSlop.
//
// C differs: it does while it is below 100 ticks.
func (c *cpuTimes) set(line []byte) bool {
	before := c.nums[iowait]
	c.parse(line)
	if now := c.nums[iowait]; now < before && before-now < waitSlop {
		c.nums[iowait] = before
	}
	return c.words > 0
}

// A timeFunc is what a metric is of the times of a CPU.
type timeFunc func(c *cpuTimes) (ticks uint64, ok bool)

func ticks(places ...int) timeFunc {
	return func(c *cpuTimes) (uint64, bool) { return c.sum(places, newTimes) }
}

// ticksWithout is a time without one that is part of it. The kernel writes a
// line while its numbers change: the part may be ahead.
//
// C differs: the difference wraps then.
func ticksWithout(whole, part int) timeFunc {
	return func(c *cpuTimes) (uint64, bool) {
		_, ok := c.sum([]int{whole, part}, newTimes)
		return c.nums[whole] - min(c.nums[whole], c.nums[part]), ok
	}
}

// line is the first number of a line.
func (s *stat) line(name string) pmda.FetchFunc {
	f := new(fact)
	s.lines[name] = f
	return f.fetch()
}

func (s *stat) msecs(ticks uint64) uint64 { return ticks/s.hertz*1000 + ticks%s.hertz*1000/s.hertz }

func (s *stat) metrics() []pmda.Metric {
	// C differs: without a line cpu all are 0.
	all := func(f timeFunc) pmda.FetchFunc {
		return number(func() (uint64, bool) {
			n, ok := f(&s.all)
			return s.msecs(n), ok && s.all.words > 0
		})
	}
	each := func(f timeFunc) pmda.FetchFunc {
		return of(func(v *pmda.Value, c *cpu) {
			if n, ok := f(&c.times); ok {
				v.Uint(s.msecs(n))
			}
		})
	}
	labels := pmda.Labels{"device_type": "cpu"}
	ms := table(pmda.Metric{Source: s.source, Labels: labels}, []row{
		{0, 20, "kernel.all.cpu.user", u64, counter, msec, all(ticks(user))},
		{0, 21, "kernel.all.cpu.nice", u64, counter, msec, all(ticks(nice))},
		{0, 22, "kernel.all.cpu.sys", u64, counter, msec, all(ticks(system))},
		{0, 23, "kernel.all.cpu.idle", u64, counter, msec, all(ticks(idle))},
		{0, 34, "kernel.all.cpu.intr", u64, counter, msec, all(ticks(irq, softirq))},
		{0, 35, "kernel.all.cpu.wait.total", u64, counter, msec, all(ticks(iowait))},
		{0, 53, "kernel.all.cpu.irq.soft", u64, counter, msec, all(ticks(softirq))},
		{0, 54, "kernel.all.cpu.irq.hard", u64, counter, msec, all(ticks(irq))},
		{0, 55, "kernel.all.cpu.steal", u64, counter, msec, all(ticks(steal))},
		{0, 60, "kernel.all.cpu.guest", u64, counter, msec, all(ticks(guest))},
		{0, 78, "kernel.all.cpu.vuser", u64, counter, msec, all(ticksWithout(user, guest))},
		{0, 81, "kernel.all.cpu.guest_nice", u64, counter, msec, all(ticks(guestNice))},
		{0, 82, "kernel.all.cpu.vnice", u64, counter, msec, all(ticksWithout(nice, guestNice))},
	})
	ms = append(ms, table(pmda.Metric{InDom: s.indom, Source: s.source}, []row{
		{0, 0, "kernel.percpu.cpu.user", u64, counter, msec, each(ticks(user))},
		{0, 1, "kernel.percpu.cpu.nice", u64, counter, msec, each(ticks(nice))},
		{0, 2, "kernel.percpu.cpu.sys", u64, counter, msec, each(ticks(system))},
		{0, 3, "kernel.percpu.cpu.idle", u64, counter, msec, each(ticks(idle))},
		{0, 30, "kernel.percpu.cpu.wait.total", u64, counter, msec, each(ticks(iowait))},
		{0, 31, "kernel.percpu.cpu.intr", u64, counter, msec, each(ticks(irq, softirq))},
		{0, 56, "kernel.percpu.cpu.irq.soft", u64, counter, msec, each(ticks(softirq))},
		{0, 57, "kernel.percpu.cpu.irq.hard", u64, counter, msec, each(ticks(irq))},
		{0, 58, "kernel.percpu.cpu.steal", u64, counter, msec, each(ticks(steal))},
		{0, 61, "kernel.percpu.cpu.guest", u64, counter, msec, each(ticks(guest))},
		{0, 76, "kernel.percpu.cpu.vuser", u64, counter, msec, each(ticksWithout(user, guest))},
		{0, 83, "kernel.percpu.cpu.guest_nice", u64, counter, msec, each(ticks(guestNice))},
		{0, 84, "kernel.percpu.cpu.vnice", u64, counter, msec, each(ticksWithout(nice, guestNice))},
	})...)
	return append(ms, table(pmda.Metric{Source: s.source}, []row{
		{0, 12, "kernel.all.intr", u64, counter, count, s.line("intr")},
		{0, 13, "kernel.all.pswitch", u64, counter, count, s.line("ctxt")},
		{0, 14, "kernel.all.sysfork", u64, counter, count, s.line("processes")},
		{0, 15, "kernel.all.running", u64, instant, none, s.line("procs_running")},
		{0, 16, "kernel.all.blocked", u64, instant, none, s.line("procs_blocked")},
		{0, 17, "kernel.all.boottime", i64, discrete, sec, s.line("btime")},
		{0, 32, "hinv.ncpu", u32, discrete, none, number(func() (uint64, bool) { return uint64(s.online), true })},
	})...)
}
