package linux

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
	float, double, str         = pdu.MetricFloat, pdu.MetricDouble, pdu.MetricString
	counter, instant, discrete = pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete

	none                = pdu.Units(0)
	octet, kbyte, mbyte = pdu.Byte, pdu.Kbyte, pdu.Mbyte
	nsec, usec, msec    = pdu.Nsec, pdu.Usec, pdu.Msec
	sec, count          = pdu.Sec, pdu.Count
)

var (
	mhz      = pdu.NewUnits(0, -1, 0, 0, pdu.TimeUsec, 0)
	perSec   = pdu.NewUnits(0, -1, 1, 0, pdu.TimeSec, 0)
	bytesSec = pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeSec, 0)
	mbyteSec = pdu.NewUnits(1, -1, 0, pdu.SpaceMbyte, pdu.TimeSec, 0)
)

// Serial numbers of the instance domains.
const (
	indomCPU           = 0
	indomDisk          = 1
	indomLoad          = 2
	indomInterface     = 3
	indomIRQ           = 4
	indomFilesys       = 5
	indomSwap          = 6
	indomNFS2          = 7
	indomNFS3          = 8
	indomPartition     = 10
	indomSCSI          = 11
	indomSlab          = 12
	indomNFS4Client    = 14
	indomNFS4Server    = 15
	indomAddress       = 17
	indomTmpfs         = 18
	indomNode          = 19
	indomICMPType      = 23
	indomDM            = 24
	indomMD            = 25
	indomShm           = 28
	indomMsg           = 29
	indomSem           = 30
	indomBuddy         = 31
	indomZone          = 32
	indomProtection    = 33
	indomTape          = 34
	indomTTY           = 35
	indomSoftIRQ       = 36
	indomPressure      = 37
	indomZRAM          = 38
	indomFCHost        = 39
	indomIRQCPU        = 40
	indomSoftIRQCPU    = 41
	indomWWID          = 42
	indomHugePages     = 43
	indomNodeHugePages = 44
	indomNFSClient     = 45
	indomNFSOpen       = 46
)
