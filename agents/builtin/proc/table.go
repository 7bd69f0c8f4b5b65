package proc

import (
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A row is what differs between the metrics of a table. It has fields in the
// order of PCP's pmdaMetric; the help texts are in a file.
//
// Each package with such tables has its own row, because go vet requires field names
// in literals of another package's struct.
type row struct {
	cluster, item int
	name          string
	typ           pdu.MetricType
	sem           pdu.Sem
	units         pdu.Units
	fetch         pmda.FetchFunc
}

// table returns a metric for each row. The other fields, such as InDom and
// Source, are those of common.
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
