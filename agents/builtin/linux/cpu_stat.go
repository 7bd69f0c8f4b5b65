package linux

import (
	"bytes"
	"context"
	"slices"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// stat reads /proc/stat, proc(5). The first lines are the times of all CPUs and of
// each CPU that is online:
//
//	cpu  378542 346378 300480 1176914 2234 0 21734 246 0 0
//	cpu0 187658 173415 147479 593093 540 0 10423 116 0 0
type stat struct {
	file   *sysfile.File
	hertz  uint64
	all    cpuTimes
	lines  map[string]*optionalUint // the first numbers of other lines
	cpus   []*cpu                   // by number; nil if the CPU was never online
	online int
	source *pmda.Source
	indom  *pmda.InDom
}

// Indices of the numbers in a line, in ticks.
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

	newTimes = iowait // the first number that older kernels lack
)

// cpuTimes are the numbers of a line. user and nice include the times of guests.
type cpuTimes struct{ sysfile.Record }

// A cpu is an instance of the domain of CPUs.
type cpu struct {
	num    int
	name   string // cpu0
	node   int    // -1 if it is not known
	online bool
	times  cpuTimes
	info   cpuInfo // of /proc/cpuinfo
	freq   frequency
	net    *softnetLine // nil if it is not known
}

// maxCPU is the highest number of a CPU that is accepted. It is far above NR_CPUS.
const maxCPU = 1<<16 - 1

func newStat(h *host) *stat {
	s := &stat{file: h.file("proc/stat").NeverBlocks(0), hertz: h.Hertz, lines: make(map[string]*optionalUint)}
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
	b, err := s.file.Read()
	s.parse(b)
	return err
}

func (s *stat) parse(b []byte) {
	s.all.Words, s.online = 0, 0
	for _, c := range s.cpus {
		if c != nil {
			c.online = false
		}
	}
	for bytes.HasPrefix(b, []byte("cpu")) { // these lines come first
		var line []byte
		line, b = sysfile.CutLine(b)
		word, rest := sysfile.Field(line)
		if len(word) == 3 {
			s.all.set(rest)
		} else if c := s.cpu(word[3:]); c != nil && !c.online && c.times.set(rest) {
			c.online = true
			s.online++
		}
	}
	for _, f := range s.lines {
		*f = optionalUint{}
	}
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, rest := sysfile.Field(line)
		if f := s.lines[string(word)]; f != nil {
			f.parse(rest)
		}
	}
	// A kernel for one CPU writes no line cpu0.
	if c := s.cpu([]byte{'0'}); s.online == 0 && s.all.Words > 0 {
		c.times, c.online, s.online = s.all, true, 1
	}
}

// cpu returns the CPU with a number, or nil if num is not a number of a CPU.
func (s *stat) cpu(num []byte) *cpu {
	n, ok := sysfile.Uint(num)
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

var _ pmda.Finder = (*stat)(nil)

// Each implements pmda.Instances. Instances are the CPUs that are online.
//
// C differs: its instances are the CPUs that existed when it started.
func (s *stat) Each(yield func(inst int32, name string, data any) bool) {
	for i, c := range s.cpus {
		if c != nil && c.online && !yield(int32(i), c.name, c) {
			return
		}
	}
}

// Find implements pmda.Finder.
func (s *stat) Find(inst int32) (name string, data any, ok bool) {
	if inst < 0 || int(inst) >= len(s.cpus) || s.cpus[inst] == nil || !s.cpus[inst].online {
		return "", nil, false
	}
	return s.cpus[inst].name, s.cpus[inst], true
}

// maxIowaitDrop is the largest decrease of iowait that is hidden, in ticks. The
// kernel does not count iowait exactly (proc(5)).
const maxIowaitDrop = 100

// set sets c to the numbers of its line, and reports whether there are any. It
// hides decreases of iowait of less than maxIowaitDrop.
//
// C differs: while iowait is below 100 ticks, it may decrease.
func (c *cpuTimes) set(line []byte) bool {
	before := c.Nums[iowait]
	c.Parse(line)
	if now := c.Nums[iowait]; now < before && before-now < maxIowaitDrop {
		c.Nums[iowait] = before
	}
	return c.Words > 0
}

// A timeFunc computes the value of a metric from the times of a CPU.
type timeFunc func(c *cpuTimes) (ticks uint64, ok bool)

// ticks returns a timeFunc for the sum of some times.
func ticks(indices ...int) timeFunc {
	return func(c *cpuTimes) (uint64, bool) { return c.Sum(indices, newTimes) }
}

// ticksWithout returns a timeFunc for a time minus a part of it. The kernel writes
// a line while its numbers change, so the part may be larger than the whole. The
// value is 0 then.
//
// C differs: the difference wraps.
func ticksWithout(whole, part int) timeFunc {
	return func(c *cpuTimes) (uint64, bool) {
		_, ok := c.Sum([]int{whole, part}, newTimes)
		return c.Nums[whole] - min(c.Nums[whole], c.Nums[part]), ok
	}
}

// lineValue returns a FetchFunc for the first number of a line.
func (s *stat) lineValue(name string) pmda.FetchFunc {
	f := new(optionalUint)
	s.lines[name] = f
	return f.fetch()
}

// msecs converts ticks to milliseconds, without overflow of an intermediate result.
func (s *stat) msecs(ticks uint64) uint64 { return ticks/s.hertz*1000 + ticks%s.hertz*1000/s.hertz }

// A timeRow describes three metrics: a time of all CPUs, of each CPU, and of each
// node. name is their common suffix. Their items are in cluster 0.
type timeRow struct {
	name  string
	items [3]int
	f     timeFunc
}

// Indices of timeRow.items.
const (
	ofAllCPUs = iota
	ofCPU
	ofNode
)

var timeRows = []timeRow{
	{"user", [...]int{20, 0, 62}, ticks(user)},
	{"nice", [...]int{21, 1, 63}, ticks(nice)},
	{"sys", [...]int{22, 2, 64}, ticks(system)},
	{"idle", [...]int{23, 3, 65}, ticks(idle)},
	{"intr", [...]int{34, 31, 66}, ticks(irq, softirq)},
	{"wait.total", [...]int{35, 30, 69}, ticks(iowait)},
	{"irq.soft", [...]int{53, 56, 70}, ticks(softirq)},
	{"irq.hard", [...]int{54, 57, 71}, ticks(irq)},
	{"steal", [...]int{55, 58, 67}, ticks(steal)},
	{"guest", [...]int{60, 61, 68}, ticks(guest)},
	{"vuser", [...]int{78, 76, 77}, ticksWithout(user, guest)},
	{"guest_nice", [...]int{81, 83, 85}, ticks(guestNice)},
	{"vnice", [...]int{82, 84, 86}, ticksWithout(nice, guestNice)},
}

// timeTable returns the metrics of timeRows for one column of items. fetch returns
// the FetchFunc that computes the value.
func timeTable(common pmda.Metric, column int, prefix string, fetch func(timeFunc) pmda.FetchFunc) []pmda.Metric {
	list := make([]row, len(timeRows))
	for i, r := range timeRows {
		list[i] = row{0, r.items[column], prefix + r.name, u64, counter, msec, fetch(r.f)}
	}
	return table(common, list)
}

func (s *stat) metrics() []pmda.Metric {
	// C differs: without a line cpu the values are 0.
	total := func(f timeFunc) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) {
			n, ok := f(&s.all)
			return s.msecs(n), ok && s.all.Words > 0
		})
	}
	perCPU := func(f timeFunc) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, c *cpu) {
			if n, ok := f(&c.times); ok {
				v.SetUint(s.msecs(n))
			}
		})
	}
	return slices.Concat(
		timeTable(pmda.Metric{Source: s.source, Labels: pmda.Labels{"device_type": "cpu"}}, ofAllCPUs, "kernel.all.cpu.", total),
		timeTable(pmda.Metric{InDom: s.indom, Source: s.source}, ofCPU, "kernel.percpu.cpu.", perCPU),
		table(pmda.Metric{Source: s.source}, []row{
			{0, 12, "kernel.all.intr", u64, counter, count, s.lineValue("intr")},
			{0, 13, "kernel.all.pswitch", u64, counter, count, s.lineValue("ctxt")},
			{0, 14, "kernel.all.sysfork", u64, counter, count, s.lineValue("processes")},
			{0, 15, "kernel.all.running", u64, instant, none, s.lineValue("procs_running")},
			{0, 16, "kernel.all.blocked", u64, instant, none, s.lineValue("procs_blocked")},
			{0, 17, "kernel.all.boottime", i64, discrete, sec, s.lineValue("btime")},
			{0, 32, "hinv.ncpu", u32, discrete, none, pmda.FromUint(func() (uint64, bool) { return uint64(s.online), true })},
		}),
	)
}
