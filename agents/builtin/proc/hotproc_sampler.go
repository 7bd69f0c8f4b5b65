package proc

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// A sampler scans all processes at intervals, as the user of the agent, and
// publishes which are hot. It has readers of its own because its goroutine runs
// beside the agent's requests.
type sampler struct {
	tree     tree
	indom    *processIndom
	before   map[int32]sample
	lastScan time.Time
	idle     float64 // of all CPUs, in seconds
}

// A sample is the counters of a process.
type sample struct {
	formats                uint32 // that it has the counters of
	start, switches, bytes uint64
	cpu, iowait, schedwait float64 // in seconds
}

// A hotSet is the result of a scan. It is immutable.
type hotSet struct {
	pids    []int32          // of hot processes, in ascending order
	vars    []vars           // for each of pids, without texts
	samples map[int32]sample // of all processes
	totals  *totals          // nil before the second scan
}

// totals are the values of hotproc.total: CPU time divided by elapsed time, so 1 is
// one CPU.
type totals struct{ idle, hot, cold, transient float64 }

func newSampler(h *host) *sampler {
	s := &sampler{tree: tree{
		Reader: sysfile.Reader{Root: h.Root}, names: newUserNames(), hertz: h.hertz, pageSize: h.pageSize,
	}}
	s.indom = newProcessIndom(&s.tree)
	return s
}

// scan evaluates the predicate for all processes. For a process that the last scan did
// not see, rates are not known: the predicate takes them for 0, and they have no value.
func (s *sampler) scan(p *predicate, now time.Time) *hotSet {
	s.tree.request++
	s.tree.names.refresh()
	defer s.indom.release()
	v := &hotSet{}
	if s.indom.findAll() != nil || s.indom.updateList(nil, s.indom.sortedPIDs()) != nil {
		return v
	}
	dt := now.Sub(s.lastScan).Seconds()
	first := s.lastScan.IsZero() || dt <= 0
	after := make(map[int32]sample, len(s.indom.list))
	var hot, cold float64
	s.indom.wanted = p.formats
	for _, proc := range s.indom.list {
		before, seen := s.before[proc.id]
		if !seen || first {
			before = sample{}
		}
		now, x, ok := s.measure(proc, before, dt, p.formats)
		if !ok {
			continue
		}
		cpuBurn := x.nums[varCPU]
		if p.eval(&x) {
			if now, x, ok = s.measure(proc, before, dt, hotFormats); !ok {
				continue
			}
			x.texts = [len(textVars)]string{}
			hot += cpuBurn
			v.pids = append(v.pids, proc.id)
			v.vars = append(v.vars, x)
		} else {
			cold += cpuBurn
		}
		after[proc.id] = now
	}
	idle, cpus := s.cpus()
	if !first {
		v.totals = &totals{idle: max(idle-s.idle, 0) / dt, hot: hot, cold: cold}
		v.totals.transient = max(cpus-hot-cold-v.totals.idle, 0)
	}
	v.samples = after
	s.before, s.lastScan, s.idle = after, now, idle
	return v
}

// measure returns the counters and the variables of a process that need formats. Rates are since
// before, and unknown if that sample, or now, does not have the counters. ok is false if there is
// no such process.
//
// C differs: it reads all files of all processes in each scan, and an unknown rate is 0.
func (s *sampler) measure(proc *process, before sample, dt float64, formats uint32) (now sample, x vars, ok bool) {
	stat := proc.record(formatStat)
	if !stat.ok() {
		return now, x, false
	}
	rate := func(variable, format int, from, to float64) {
		if before.formats&now.formats>>format&1 == 0 || before.start != now.start {
			x.unknown |= 1 << variable
			return
		}
		x.nums[variable] = max(to-from, 0) / dt
	}
	now.formats, now.start = 1<<formatStat, stat.num(statStart)
	now.cpu = float64(stat.num(statUtime)+stat.num(statStime)) / float64(s.tree.hertz)
	now.iowait = float64(stat.num(statBlkio)) / float64(s.tree.hertz)
	x.texts[textFname] = string(stat.string(statComm))
	x.nums[varVirtual] = float64(stat.num(statVsize) / 1024)
	x.nums[varResident] = float64(stat.num(statRSS) * s.tree.pageSize / 1024)
	rate(varCPU, formatStat, before.cpu, now.cpu)
	rate(varIOWait, formatStat, before.iowait, now.iowait)
	if formats>>formatStatus&1 != 0 {
		status := proc.record(formatStatus)
		if !status.ok() {
			return now, x, false
		}
		uid, gid := status.num(statusUID), status.num(statusGID)
		x.texts[textUname], x.texts[textGname] = s.tree.names.user(uint32(uid)), s.tree.names.group(uint32(gid))
		x.nums[varUID], x.nums[varGID] = float64(uid), float64(gid)
		now.switches = status.num(statusVoluntary) + status.num(statusInvoluntary)
		now.formats |= 1 << formatStatus
		rate(varSwitches, formatStatus, float64(before.switches), float64(now.switches))
	}
	if formats>>formatIO&1 != 0 {
		if io := proc.record(formatIO); io.ok() {
			now.formats |= 1 << formatIO
			now.bytes = io.num(4) + io.num(5)
		}
		rate(varIO, formatIO, float64(before.bytes)/1024, float64(now.bytes)/1024) // C differs: it compares bytes
	}
	if formats>>formatSchedstat&1 != 0 {
		if s := proc.record(formatSchedstat); s.ok() {
			now.formats |= 1 << formatSchedstat
			now.schedwait = float64(s.num(1)) / 1e9
		}
		rate(varSchedWait, formatSchedstat, before.schedwait, now.schedwait)
	}
	if formats&needsArgs != 0 {
		x.texts[textPsargs] = proc.args()
	}
	return now, x, true
}

// cpus reads the idle time of all CPUs, in seconds, and their number.
func (s *sampler) cpus() (idle, n float64) {
	b, _ := s.tree.Path("/proc/stat").Text(maxFile)
	for bytes.HasPrefix(b, []byte("cpu")) {
		var line []byte
		line, b = sysfile.CutLine(b)
		word, rest := sysfile.Field(line)
		if len(word) > 3 {
			n++
			continue
		}
		for range 4 {
			word, rest = sysfile.Field(rest)
		}
		if ticks, ok := sysfile.Uint(word); ok {
			idle = float64(ticks) / float64(s.tree.hertz)
		}
	}
	return idle, n
}

// run scans at intervals until ctx ends.
func (s *sampler) run(ctx context.Context, p *predicate, interval time.Duration, publish func(*hotSet)) {
	for {
		publish(s.scan(p, time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

// varsOf returns the vars of a process; nil if it is not hot.
func (h *hotSet) varsOf(pid int32) *vars {
	if i, ok := slices.BinarySearch(h.pids, pid); ok {
		return &h.vars[i]
	}
	return nil
}
