package proc

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A row is a metric of a table.
type row metrics.Row

func table(common pmda.Metric, rows []row) []pmda.Metric { return metrics.Table(common, rows) }

// A processRow is a metric of processes.
type processRow struct {
	Cluster, Item int
	Name          string
	Type          pdu.MetricType
	Sem           pdu.Sem
	Units         pdu.Units
	value
}

// A value says where the values of a metric of processes come from.
type value struct {
	format int    // noFormat for none
	fields uint64 // of the format, a bit for each: those that fetch uses
	fetch  pmda.FetchFunc
}

const noFormat = -1

// processTable is table for rows of processes, with the names below prefix and the clusters that
// clusters maps theirs to.
func (h *host) processTable(common pmda.Metric, prefix string, clusters map[int]int, rows []processRow) []pmda.Metric {
	plain := make([]row, len(rows))
	for i, r := range rows {
		if c, ok := clusters[r.Cluster]; ok {
			r.Cluster = c
		}
		plain[i] = row{r.Cluster, r.Item, prefix + r.Name, r.Type, r.Sem, r.Units, r.fetch}
		if r.format != noFormat {
			common.InDom.Insts.(*processIndom).values[pdu.NewPMID(h.domain, r.Cluster, r.Item)] = r.value
		}
	}
	return table(common, plain)
}

// Short names for the tables.
const (
	i32, u32, i64, u64         = pdu.Metric32, pdu.MetricU32, pdu.Metric64, pdu.MetricU64
	float, str                 = pdu.MetricFloat, pdu.MetricString
	counter, instant, discrete = pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete

	none             = pdu.Units(0)
	octet, kbyte     = pdu.Byte, pdu.Kbyte
	nsec, usec, msec = pdu.Nsec, pdu.Usec, pdu.Msec
	sec, count       = pdu.Sec, pdu.Count
)

var (
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
	indomAcct      = 40
)
