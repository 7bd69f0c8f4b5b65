package linux

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
	u32   = pdu.MetricU32
	u64   = pdu.MetricU64
	float = pdu.MetricFloat
	str   = pdu.MetricString

	i32    = pdu.Metric32
	i64    = pdu.Metric64
	double = pdu.MetricDouble

	counter  = pdu.SemCounter
	instant  = pdu.SemInstant
	discrete = pdu.SemDiscrete
)

var (
	none  = pdu.Units(0)
	count = pdu.NewUnits(0, 0, 1, 0, 0, 0)
	octet = pdu.NewUnits(1, 0, 0, pdu.SpaceByte, 0, 0)
	kbyte = pdu.NewUnits(1, 0, 0, pdu.SpaceKbyte, 0, 0)
	mbyte = pdu.NewUnits(1, 0, 0, pdu.SpaceMbyte, 0, 0)
	msec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeMsec, 0)
	nsec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeNsec, 0)
	usec  = pdu.NewUnits(0, 1, 0, 0, pdu.TimeUsec, 0)
	mhz   = pdu.NewUnits(0, -1, 0, 0, pdu.TimeUsec, 0)

	sec    = pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0)
	perSec = pdu.NewUnits(0, -1, 1, 0, pdu.TimeSec, 0)

	bytesSec = pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeSec, 0)
	mbyteSec = pdu.NewUnits(1, -1, 0, pdu.SpaceMbyte, pdu.TimeSec, 0)
)

// Serial numbers of the instance domains.
const (
	indomCPU        = 0
	indomDisk       = 1
	indomLoad       = 2
	indomInterface  = 3
	indomIRQ        = 4
	indomFilesys    = 5
	indomSwap       = 6
	indomNFS2       = 7
	indomNFS3       = 8
	indomPartition  = 10
	indomSCSI       = 11
	indomSlab       = 12
	indomNFS4Client = 14
	indomNFS4Server = 15
	indomAddress    = 17
	indomTmpfs      = 18
	indomNode       = 19
	indomICMPType   = 23
	indomDM         = 24
	indomMD         = 25
	indomShm        = 28
	indomMsg        = 29
	indomSem        = 30
	indomBuddy      = 31
	indomZone       = 32
	indomProtection = 33
	indomTape       = 34
	indomTTY        = 35
	indomSoftIRQ    = 36
	indomPressure   = 37
	indomZRAM       = 38
	indomFCHost     = 39
	indomIRQCPU     = 40
	indomSoftIRQCPU = 41
	indomWWID       = 42
)

// of makes a FetchFunc of one that gets what is attached to the instance.
func of[T any](f func(v *pmda.Value, data *T)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		f(v, v.Data().(*T))
		return nil
	}
}

// number makes a FetchFunc of one that cannot fail; ok is false if there is no
// value.
func number(f func() (n uint64, ok bool)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		if n, ok := f(); ok {
			v.Uint(n)
		}
		return nil
	}
}
