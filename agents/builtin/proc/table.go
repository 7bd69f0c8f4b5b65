package proc

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A row is a metric of a table.
type row metrics.Row

func table(common pmda.Metric, rows []row) []pmda.Metric { return metrics.Table(common, rows) }

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
