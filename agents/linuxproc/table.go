package linuxproc

import (
	"context"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A row is a metric in the tables: what is special about it, but for the texts,
// which are in help.txt.
type row struct {
	cluster, item int
	name          string
	typ           pdu.MetricType
	sem           pdu.Sem
	units         pdu.Units
	fetch         pmda.FetchFunc
}

// table returns metrics that have indom, source and labels in common.
func table(common pmda.Metric, rows []row) []pmda.Metric {
	ms := make([]pmda.Metric, len(rows))
	for i, r := range rows {
		m := common
		m.Cluster, m.Item, m.Name = r.cluster, r.item, r.name
		m.Type, m.Sem, m.Units, m.Fetch = r.typ, r.sem, r.units, r.fetch
		ms[i] = m
	}
	return ms
}

// Short for the tables.
const (
	i32   = pdu.Metric32
	u32   = pdu.MetricU32
	i64   = pdu.Metric64
	u64   = pdu.MetricU64
	float = pdu.MetricFloat
	str   = pdu.MetricString

	counter  = pdu.SemCounter
	instant  = pdu.SemInstant
	discrete = pdu.SemDiscrete
)

var (
	none  = pdu.Units(0)
	count = pdu.NewUnits(0, 0, 1, 0, 0, 0)
	octet = pdu.NewUnits(1, 0, 0, pdu.SpaceByte, 0, 0)
	kbyte = pdu.NewUnits(1, 0, 0, pdu.SpaceKbyte, 0, 0)
	msec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeMsec, 0)
	usec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeUsec, 0)
	nsec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeNsec, 0)

	kbyteSec = pdu.NewUnits(1, -1, 0, pdu.SpaceKbyte, pdu.TimeSec, 0)
	countSec = pdu.NewUnits(0, -1, 1, 0, pdu.TimeSec, 0)
)

// Serial numbers of the instance domains.
const (
	indomProc      = 9
	indomGroup2    = 16
	indomGroup2Dev = 17
	indomCPUSet    = 20
	indomCPUAcct   = 21
	indomPerCPU    = 22
	indomCPUSched  = 23
	indomMemory    = 24
	indomNetClass  = 25
	indomBlkIO     = 26
	indomBlkIODev  = 27
	indomSubsys    = 37
	indomMounts    = 38
	indomHot       = 39
)

// number makes a FetchFunc of one that cannot fail.
func number(f func() uint64) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		v.Uint(f())
		return nil
	}
}
