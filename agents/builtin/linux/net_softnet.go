package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// softnet reads /proc/net/softnet_stat, which has a line for each CPU that is
// online, with hexadecimal counts of packets that drivers have received.
type softnet struct {
	h     *host
	stat  *stat
	file  *sysfile.File
	lines []softnetLine
}

func newSoftnet(h *host, s *stat) *softnet {
	return &softnet{h: h, stat: s, file: h.file("proc/net/softnet_stat")}
}

// Indices of the numbers in a line.
const (
	softProcessed = 0
	softDropped   = 1
	softSqueezed  = 2
	softCollision = 8
	softRPS       = 9  // since Linux 2.6.35
	softFlowLimit = 10 // since 3.11
	softBacklog   = 11 // since 5.10
	softCPU       = 12 // number of the CPU, since 5.14
	softInput     = 13 // since 5.16, like the next one
	softProcess   = 14

	softOld = 9 // numbers that all kernels have
)

// A softnetLine has the numbers of a line, up to the first malformed one.
type softnetLine struct {
	nums  [softProcess + 1]uint64
	width int
}

// read reads the file, and before it the source of CPUs, unless the fetch has read
// that already.
func (s *softnet) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, s.stat.source); err != nil {
		return err
	}
	b, err := s.file.Read()
	s.lines = s.lines[:0]
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		s.lines = append(s.lines, softnetLine{})
		s.lines[len(s.lines)-1].parse(line)
	}
	s.assignLines()
	return err
}

func (l *softnetLine) parse(line []byte) {
	for l.width < len(l.nums) {
		var word []byte
		word, line = sysfile.Field(line)
		n, ok := sysfile.Hex(word)
		if !ok {
			return
		}
		l.nums[l.width] = n
		l.width++
	}
}

// assignLines sets the line of each CPU.
//
// C differs: it assigns lines in order, even if they have the number of the CPU.
func (s *softnet) assignLines() {
	next := 0
	for _, c := range s.stat.cpus {
		if c == nil {
			continue
		}
		c.net = nil
		if c.online && next < len(s.lines) && s.lines[next].width <= softCPU {
			c.net = &s.lines[next]
			next++
		}
	}
	for i := range s.lines {
		l := &s.lines[i]
		if num := l.nums[softCPU]; l.width > softCPU && num < uint64(len(s.stat.cpus)) && s.stat.cpus[num] != nil {
			s.stat.cpus[num].net = l
		}
	}
}

func (s *softnet) metrics() []pmda.Metric {
	// total is for the sum over all CPUs, perCPU for the number of each. If lines
	// have fewer than width numbers, the kernel does not support the number.
	total := func(index, width int) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			var sum uint64
			for i := range s.lines {
				if s.lines[i].width < width {
					return pdu.ErrnoAppVersion
				}
				sum += s.lines[i].nums[index]
			}
			if len(s.lines) == 0 {
				return pdu.ErrnoAppVersion
			}
			v.SetUint(sum)
			return nil
		}
	}
	perCPU := func(index, width int) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			c := v.Data().(*cpu)
			if c.net == nil || c.net.width < width {
				return pdu.ErrnoAppVersion
			}
			v.SetUint(c.net.nums[index])
			return nil
		}
	}
	// As in C, the length of both queues needs those of each.
	const queues = softProcess + 1
	source := &pmda.Source{Read: s.read}
	return append(table(pmda.Metric{Source: source}, []row{
		{57, 0, "network.softnet.processed", u64, counter, count, total(softProcessed, softOld)},
		{57, 1, "network.softnet.dropped", u64, counter, count, total(softDropped, softOld)},
		{57, 2, "network.softnet.time_squeeze", u64, counter, count, total(softSqueezed, softOld)},
		{57, 3, "network.softnet.cpu_collision", u64, counter, count, total(softCollision, softOld)},
		{57, 4, "network.softnet.received_rps", u64, counter, count, total(softRPS, softRPS+1)},
		{57, 5, "network.softnet.flow_limit_count", u64, counter, count, total(softFlowLimit, softFlowLimit+1)},
		{57, 12, "network.softnet.total_backlog", u64, instant, count, total(softBacklog, queues)},
		{57, 14, "network.softnet.input_qlen", u64, instant, count, total(softInput, queues)},
		{57, 16, "network.softnet.process_qlen", u64, instant, count, total(softProcess, queues)},
	}), table(pmda.Metric{InDom: s.stat.indom, Source: source}, []row{
		{57, 6, "network.softnet.percpu.processed", u64, counter, count, perCPU(softProcessed, softOld)},
		{57, 7, "network.softnet.percpu.dropped", u64, counter, count, perCPU(softDropped, softOld)},
		{57, 8, "network.softnet.percpu.time_squeeze", u64, counter, count, perCPU(softSqueezed, softOld)},
		{57, 9, "network.softnet.percpu.cpu_collision", u64, counter, count, perCPU(softCollision, softOld)},
		{57, 10, "network.softnet.percpu.received_rps", u64, counter, count, perCPU(softRPS, softRPS+1)},
		{57, 11, "network.softnet.percpu.flow_limit_count", u64, counter, count, perCPU(softFlowLimit, softFlowLimit+1)},
		{57, 13, "network.softnet.percpu.total_backlog", u64, instant, count, perCPU(softBacklog, queues)},
		{57, 15, "network.softnet.percpu.input_qlen", u64, instant, count, perCPU(softInput, queues)},
		{57, 17, "network.softnet.percpu.process_qlen", u64, instant, count, perCPU(softProcess, queues)},
	})...)
}
