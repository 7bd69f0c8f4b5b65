// Package txmon is PCP's demonstration of an agent that gets its values through
// shared memory (PMDA txmon). Programs that handle transactions, such as txrecord,
// record counts and service times in the memory, and the agent reports them by type
// of transaction. The agent works with PCP's programs, and programs written for it
// work with PCP's agent.
//
// # Memory
//
// The memory has the key 0xdeadbeef, see shmget(2), and the byte order and types of
// the machine (txmon.h of PCP):
//
//	level   int32              // 0: nothing is recorded, 1: counts, 2: counts and times
//	n       int32              // number of types
//	index   [n]int32           // offset of each block from the start, in bytes
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
// Programs update count, and at level 2 also max and sum. There is no lock, so a
// transaction may be lost if two programs record at the same time.
//
// # Types
//
// The program pmdatxmon gets the types of transactions as arguments. In pmcd's
// process the agent reads them from $PCP_PMDAS_DIR/txmon/txmon.conf. The file has
// names separated by blanks or newlines; lines that start with # are ignored. There
// must be at least one type.
//
// # Trust
//
// Any process may write to the memory, so the agent reads only values from it. It
// keeps its own copy of the number of types, their names and the offsets of their
// blocks.
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

// New returns the agent for the types in txmon.conf. The entry points TxmonInit (of
// the plugin) and txmon_init (in pmcd.conf) call it.
func New(domain int) (agents.Agent, error) {
	types, err := loadTypes()
	if err != nil {
		return nil, err
	}
	return Open(domain, types)
}

// Open returns the agent for these types of transactions, whose names are cut to 19
// bytes. It makes the shared memory; the agent's Close removes it.
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
	// A *List, not a List, because a type may occur twice, as with PCP's agent.
	types := &pmda.InDom{Serial: 0, Insts: &list}

	// fromLevel returns the FetchFunc of a metric that is recorded from this level on.
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

// store follows the rules of PCP's agent: it goes on after an error, and returns the
// last one.
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

// storeLevel stores the first value. Its limits are those of int in C.
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
