package linux

import (
	"context"
	"errors"
	"io/fs"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"github.com/prometheus/procfs"
)

// softnet reads /proc/net/softnet_stat, which has a line for each CPU that is
// online, with counts of packets that drivers have received.
type softnet struct {
	h     *host
	stat  *stat
	lines []procfs.SoftnetStat
}

func newSoftnet(h *host, s *stat) *softnet { return &softnet{h: h, stat: s} }

// Numbers of words in a line with certain fields. Newer kernels have more words.
const (
	rpsWidth  = 10 // since Linux 2.6.35
	flowWidth = 11 // since 3.11
	cpuWidth  = 13 // since 5.14
)

// read reads the file, and before it the source of CPUs, unless the fetch has read
// that already.
func (s *softnet) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, s.stat.source); err != nil {
		return err
	}
	s.lines = nil
	f, err := s.h.procfs()
	if err == nil {
		s.lines, err = f.NetSoftnetStat()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s.assignLines()
	return err
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
		if c.online && next < len(s.lines) && s.lines[next].Width < cpuWidth {
			c.net = &s.lines[next]
			next++
		}
	}
	for i := range s.lines {
		if l := &s.lines[i]; l.Width >= cpuWidth && uint64(l.Index) < uint64(len(s.stat.cpus)) && s.stat.cpus[l.Index] != nil {
			s.stat.cpus[l.Index].net = l
		}
	}
}

func (s *softnet) metrics() []pmda.Metric {
	type numberOf func(l *procfs.SoftnetStat) uint32
	// total is for the sum over all CPUs, perCPU for the number of each. If lines
	// have fewer than width words, the kernel does not support the number.
	total := func(width int, f numberOf) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			var sum uint64
			for i := range s.lines {
				if s.lines[i].Width < width {
					return pdu.ErrnoAppVersion
				}
				sum += uint64(f(&s.lines[i]))
			}
			if len(s.lines) == 0 {
				return pdu.ErrnoAppVersion
			}
			v.SetUint(sum)
			return nil
		}
	}
	perCPU := func(width int, f numberOf) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			c := v.Data().(*cpu)
			if c.net == nil || c.net.Width < width {
				return pdu.ErrnoAppVersion
			}
			v.SetUint(uint64(f(c.net)))
			return nil
		}
	}
	processed := func(l *procfs.SoftnetStat) uint32 { return l.Processed }
	dropped := func(l *procfs.SoftnetStat) uint32 { return l.Dropped }
	squeezed := func(l *procfs.SoftnetStat) uint32 { return l.TimeSqueezed }
	collision := func(l *procfs.SoftnetStat) uint32 { return l.CPUCollision }
	rps := func(l *procfs.SoftnetStat) uint32 { return l.ReceivedRps }
	flowLimit := func(l *procfs.SoftnetStat) uint32 { return l.FlowLimitCount }
	source := &pmda.Source{Read: s.read}
	return append(table(pmda.Metric{Source: source}, []row{
		{57, 0, "network.softnet.processed", u64, counter, count, total(0, processed)},
		{57, 1, "network.softnet.dropped", u64, counter, count, total(0, dropped)},
		{57, 2, "network.softnet.time_squeeze", u64, counter, count, total(0, squeezed)},
		{57, 3, "network.softnet.cpu_collision", u64, counter, count, total(0, collision)},
		{57, 4, "network.softnet.received_rps", u64, counter, count, total(rpsWidth, rps)},
		{57, 5, "network.softnet.flow_limit_count", u64, counter, count, total(flowWidth, flowLimit)},
	}), table(pmda.Metric{InDom: s.stat.indom, Source: source}, []row{
		{57, 6, "network.softnet.percpu.processed", u64, counter, count, perCPU(0, processed)},
		{57, 7, "network.softnet.percpu.dropped", u64, counter, count, perCPU(0, dropped)},
		{57, 8, "network.softnet.percpu.time_squeeze", u64, counter, count, perCPU(0, squeezed)},
		{57, 9, "network.softnet.percpu.cpu_collision", u64, counter, count, perCPU(0, collision)},
		{57, 10, "network.softnet.percpu.received_rps", u64, counter, count, perCPU(rpsWidth, rps)},
		{57, 11, "network.softnet.percpu.flow_limit_count", u64, counter, count, perCPU(flowWidth, flowLimit)},
	})...)
}
