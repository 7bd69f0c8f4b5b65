// Package txmon is PCP's demonstration of an agent that gets its values through
// shared memory (PMDA txmon): programs that handle transactions count them and
// their service times there, as txrecord does, and the agent reports them by
// type of transaction. Programs and agents of PCP and of this package work with
// each other.
//
// # Memory
//
// It has the key 0xdeadbeef, see shmget(2), and the byte order and types of the
// machine (txmon.h of PCP):
//
//	level   int32              // 0 nothing, 1 counts, 2 and times
//	n       int32              // number of types
//	index   [n]int32           // where the blocks are, in bytes from the start
//	                           // zeros up to a multiple of 32
//	blocks  [n]{
//		name   [20]byte    // ends with a NUL
//		base   uint32      // count at the last reset
//		count  uint32      // transactions since the agent was started
//		max    float32     // longest time since the last reset in seconds, or -1
//		sum    float64     // of times since the last reset, in seconds
//		_      [24]byte
//	}
//
// Programs add to count, and at level 2 to max and sum. Nobody locks: two of
// them at a time may lose a transaction.
//
// # Types
//
// The program pmdatxmon has the types of transactions as arguments. In pmcd's
// process the agent reads them from $PCP_PMDAS_DIR/txmon/txmon.conf: names with
// blanks or newlines between them, lines that start with # do not count. There
// must be one at least.
//
// # Trust
//
// Any process may write to the memory, so nothing but the numbers is read from
// it: where they are, how many and what types they are of is what the agent
// itself knows.
package txmon

import (
	"context"
	_ "embed"
	"math"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Domain is the number of txmon in PCP's list (stdpmid).
const Domain = 248

//go:embed help
var help string

// Items of the metrics, all of cluster 0.
const (
	itemCount = iota
	itemAveTime
	itemMaxTime
	itemResetCount
	itemLevel
	itemReset
)

// New returns the agent for the types in txmon.conf. It is what TxmonInit of
// the plugin and txmon_init in pmcd.conf stand for.
func New(domain int) (agents.Agent, error) {
	types, err := loadTypes()
	if err != nil {
		return nil, err
	}
	return Open(domain, types)
}

// Open returns the agent for these types of transactions, whose names are cut
// to 19 bytes. The shared memory is made by it, and removed when the agent is
// closed.
func Open(domain int, types []string) (agents.Agent, error) { return open(Key, domain, types) }

func open(key, domain int, types []string) (agents.Agent, error) {
	m, err := newMemory(key, types)
	if err != nil {
		return nil, err
	}
	a, err := newAgent(domain, m)
	if err != nil {
		m.Close()
		return nil, err
	}
	return a, nil
}

func newAgent(domain int, m *memory) (agents.Agent, error) {
	list := make(pmda.List, len(m.typeNames))
	for i, name := range m.typeNames {
		list[i] = pdu.Inst{ID: int32(i), Name: name}
	}
	// By reference, so that it may have a name twice, as in C.
	types := &pmda.InDom{Serial: 0, Insts: &list}

	// at returns a function for a metric that is kept from this level on.
	fromLevel := func(level int32, set func(*pmda.Value, *txBlock)) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			if m.level() < level {
				return pdu.ErrnoAgain
			}
			set(v, &m.blocks[v.Index()])
			return nil
		}
	}
	count := pdu.NewUnits(0, 0, 1, 0, 0, 0)
	return pmda.New(pmda.Config{
		Name:   "txmon",
		Domain: domain,
		Help:   help,
		Metrics: []pmda.Metric{{
			Item: itemCount, Name: "txmon.count", InDom: types,
			Type: pdu.MetricU32, Sem: pdu.SemCounter, Units: count,
			Fetch: fromLevel(1, func(v *pmda.Value, t *txBlock) { v.SetUint(uint64(t.count())) }),
		}, {
			Item: itemAveTime, Name: "txmon.ave_time", InDom: types,
			Type: pdu.MetricFloat, Sem: pdu.SemInstant, Units: pdu.NewUnits(0, 1, -1, 0, pdu.TimeSec, 0),
			Fetch: fromLevel(2, func(v *pmda.Value, t *txBlock) { v.SetFloat(t.aveTime()) }),
		}, {
			Item: itemMaxTime, Name: "txmon.max_time", InDom: types,
			Type: pdu.MetricFloat, Sem: pdu.SemInstant, Units: pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0),
			Fetch: fromLevel(2, func(v *pmda.Value, t *txBlock) { v.SetFloat(t.maxTime()) }),
		}, {
			Item: itemResetCount, Name: "txmon.reset_count", InDom: types,
			Type: pdu.MetricU32, Sem: pdu.SemInstant, Units: count,
			Fetch: fromLevel(1, func(v *pmda.Value, t *txBlock) { v.SetUint(uint64(t.resetCount())) }),
		}, {
			Item: itemLevel, Name: "txmon.control.level",
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetInt(int64(m.level()))
				return nil
			},
		}, {
			Item: itemReset, Name: "txmon.control.reset",
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetUint(1)
				return nil
			},
		}},
		Store: m.store,
		Close: m.Close,
	})
}

// store has the rules of C's: all metrics are stored that can be, and the last
// error counts.
func (m *memory) store(_ context.Context, _ *pmda.Request, sets []pmda.Stored) error {
	var err error
	for _, s := range sets {
		var e error
		switch {
		case s.Metric == nil:
			e = pdu.ErrnoPMID
		case s.Metric.Item == itemLevel:
			e = m.storeLevel(s.Values)
		case s.Metric.Item == itemReset:
			for i := range m.blocks {
				m.blocks[i].reset()
			}
		default:
			e = pdu.ErrnoPermission
		}
		if e != nil {
			err = e
		}
	}
	return err
}

// storeLevel takes the first value. C has it in an int.
func (m *memory) storeLevel(values []pmda.StoredValue) error {
	if len(values) == 0 {
		return pdu.ErrnoBadStore
	}
	n, err := values[0].AsInt64()
	if err != nil {
		return err
	}
	if n < 0 || n > math.MaxInt32 {
		m.setLevel(0)
		return pdu.ErrnoSign
	}
	m.setLevel(int32(n))
	return nil
}
