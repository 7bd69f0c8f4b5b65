package linux

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/prometheus/procfs"
)

// procfs returns the directory proc for package procfs. The package comment says
// which sources it reads.
func (h *host) procfs() (procfs.FS, error) { return procfs.NewFS(h.path("proc")) }

// netProcfs is procfs for the network name space of the view.
func (h *host) netProcfs() (procfs.FS, error) {
	if h.container == nil {
		return h.procfs()
	}
	return procfs.NewFS(h.container.dir)
}

// sockstat reads /proc/net/sockstat or sockstat6: the resources that each protocol
// uses. As in C, a number that the file does not have is 0.
type sockstat struct {
	source *pmda.Source
	stats  *procfs.NetSockstat // nil if there is no file
}

func newSockstat(h *host, read func(procfs.FS) (*procfs.NetSockstat, error)) *sockstat {
	s := new(sockstat)
	s.source = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		s.stats = nil
		f, err := h.netProcfs()
		if err == nil {
			s.stats, err = read(f)
		}
		if sysfile.Kernel.Absent(err) {
			return nil
		}
		return err
	}}
	return s
}

// value returns a FetchFunc for a number of a protocol. f returns nil if the file
// does not have it.
func (s *sockstat) value(protocol string, f func(p *procfs.NetSockstatProtocol) *int) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		n := 0
		if s.stats != nil {
			for i := range s.stats.Protocols {
				p := &s.stats.Protocols[i]
				if p.Protocol != protocol {
					continue
				}
				if num := f(p); num != nil {
					n = *num
				}
			}
		}
		v.SetInt(int64(n))
		return nil
	}
}

func sockstatMetrics(h *host) []pmda.Metric {
	inUse := func(p *procfs.NetSockstatProtocol) *int { return &p.InUse }
	orphan := func(p *procfs.NetSockstatProtocol) *int { return p.Orphan }
	tw := func(p *procfs.NetSockstatProtocol) *int { return p.TW }
	alloc := func(p *procfs.NetSockstatProtocol) *int { return p.Alloc }
	mem := func(p *procfs.NetSockstatProtocol) *int { return p.Mem }
	memory := func(p *procfs.NetSockstatProtocol) *int { return p.Memory }
	s, s6 := newSockstat(h, procfs.FS.NetSockstat), newSockstat(h, procfs.FS.NetSockstat6)
	used := func(_ context.Context, v *pmda.Value) error {
		v.SetInt(0)
		if s.stats != nil && s.stats.Used != nil {
			v.SetInt(int64(*s.stats.Used))
		}
		return nil
	}
	return slices.Concat(table(pmda.Metric{Source: s.source}, []row{
		{11, 0, "network.sockstat.tcp.inuse", i32, instant, count, s.value("TCP", inUse)},
		{11, 3, "network.sockstat.udp.inuse", i32, instant, count, s.value("UDP", inUse)},
		{11, 6, "network.sockstat.raw.inuse", i32, instant, count, s.value("RAW", inUse)},
		{11, 8, "network.sockstat.udplite.inuse", i32, instant, count, s.value("UDPLITE", inUse)},
		{11, 9, "network.sockstat.total", i32, instant, count, used},
		{11, 10, "network.sockstat.tcp.orphan", i32, instant, count, s.value("TCP", orphan)},
		{11, 11, "network.sockstat.tcp.tw", i32, instant, count, s.value("TCP", tw)},
		{11, 12, "network.sockstat.tcp.alloc", i32, instant, count, s.value("TCP", alloc)},
		{11, 13, "network.sockstat.tcp.mem", i32, instant, count, s.value("TCP", mem)},
		{11, 14, "network.sockstat.udp.mem", i32, instant, count, s.value("UDP", mem)},
		{11, 15, "network.sockstat.frag.inuse", i32, instant, count, s.value("FRAG", inUse)},
		{11, 16, "network.sockstat.frag.memory", i32, instant, count, s.value("FRAG", memory)},
	}), table(pmda.Metric{Source: s6.source}, []row{
		{73, 0, "network.sockstat.tcp6.inuse", i32, instant, count, s6.value("TCP6", inUse)},
		{73, 1, "network.sockstat.udp6.inuse", i32, instant, count, s6.value("UDP6", inUse)},
		{73, 2, "network.sockstat.udplite6.inuse", i32, instant, count, s6.value("UDPLITE6", inUse)},
		{73, 3, "network.sockstat.raw6.inuse", i32, instant, count, s6.value("RAW6", inUse)},
		{73, 4, "network.sockstat.frag6.inuse", i32, instant, count, s6.value("FRAG6", inUse)},
		{73, 5, "network.sockstat.frag6.memory", i32, instant, count, s6.value("FRAG6", memory)},
	}))
}
