package event

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// An Array is a list of event records (pmdaEventNewArray(3)). The zero Array is
// empty, and is for metrics of type MetricEvent; see [NewArray].
type Array struct {
	highRes bool
	size    int // bytes of the records in a value block

	recs   []pdu.EventRecord
	params []pdu.EventParam // parameters of all recs
	values []byte           // values of all params
}

// NewArray returns an empty Array for metrics of the given type, MetricEvent or
// MetricHighResEvent.
func NewArray(typ pdu.MetricType) *Array {
	return &Array{highRes: typ == pdu.MetricHighResEvent}
}

// Reset removes all records, and keeps the memory unless there is much. Records that
// a has returned become invalid.
func (a *Array) Reset() {
	const keep = 1024 // number of records or parameters, which have 64 bytes each
	if cap(a.recs) > keep || cap(a.params) > keep || cap(a.values) > 64*keep {
		*a = Array{highRes: a.highRes}
		return
	}
	a.truncate(mark{})
}

// Records returns the records, for pmda.Value.SetEvents or [pdu.AppendEvents]. The
// slice is valid until a changes.
func (a *Array) Records() []pdu.EventRecord { return a.recs }

// AddRecord adds a record without parameters (pmdaEventAddRecord). The flags are
// those of package pdu, such as EventPoint. EventMissed is ignored; see
// [Array.AddMissed]. Times of MetricEvent have microseconds and are in 1901 to 2038.
// A time outside of that becomes the nearest one.
func (a *Array) AddRecord(when time.Time, flags uint32) {
	a.add(when, pdu.EventRecord{Flags: flags &^ pdu.EventMissed})
}

// AddMissed adds a record that n events were missed (pmdaEventAddMissedRecord).
func (a *Array) AddMissed(when time.Time, n uint64) {
	a.add(when, pdu.EventRecord{Flags: pdu.EventMissed, Missed: int32(min(n, math.MaxInt32))})
}

// add adds a record with the time when.
func (a *Array) add(when time.Time, r pdu.EventRecord) {
	r.Sec, r.Nsec = when.Unix(), int64(when.Nanosecond())
	a.size += 24
	if !a.highRes {
		r.Sec = min(max(r.Sec, math.MinInt32), math.MaxInt32)
		r.Nsec -= r.Nsec % 1000
		a.size -= 8
	}
	a.recs = append(a.recs, r)
}

// AddParam adds a parameter to the last record (pmdaEventAddParam). It panics if there
// is no record, and the last record must not be one of AddMissed. A number is in
// network byte order, and a string has no NUL at its end. The value is copied.
func (a *Array) AddParam(id pdu.PMID, typ pdu.MetricType, value []byte) {
	n := len(a.values)
	a.values = append(a.values, value...)
	a.appendParam(id, typ, n)
}

// AddString adds a parameter of type MetricString. See AddParam.
func (a *Array) AddString(id pdu.PMID, s string) {
	n := len(a.values)
	a.values = append(a.values, s...)
	a.appendParam(id, pdu.MetricString, n)
}

// AddInt32 adds a parameter of type Metric32. See AddParam.
func (a *Array) AddInt32(id pdu.PMID, v int32) { a.add32(id, pdu.Metric32, uint32(v)) }

// AddUint32 adds a parameter of type MetricU32. See AddParam.
func (a *Array) AddUint32(id pdu.PMID, v uint32) { a.add32(id, pdu.MetricU32, v) }

// AddInt64 adds a parameter of type Metric64. See AddParam.
func (a *Array) AddInt64(id pdu.PMID, v int64) { a.add64(id, pdu.Metric64, uint64(v)) }

// AddUint64 adds a parameter of type MetricU64. See AddParam.
func (a *Array) AddUint64(id pdu.PMID, v uint64) { a.add64(id, pdu.MetricU64, v) }

// AddFloat32 adds a parameter of type MetricFloat. See AddParam.
func (a *Array) AddFloat32(id pdu.PMID, v float32) { a.add32(id, pdu.MetricFloat, math.Float32bits(v)) }

// AddFloat64 adds a parameter of type MetricDouble. See AddParam.
func (a *Array) AddFloat64(id pdu.PMID, v float64) {
	a.add64(id, pdu.MetricDouble, math.Float64bits(v))
}

// add32 adds a parameter of 32 bits.
func (a *Array) add32(id pdu.PMID, typ pdu.MetricType, v uint32) {
	n := len(a.values)
	a.values = binary.BigEndian.AppendUint32(a.values, v)
	a.appendParam(id, typ, n)
}

// add64 adds a parameter of 64 bits.
func (a *Array) add64(id pdu.PMID, typ pdu.MetricType, v uint64) {
	n := len(a.values)
	a.values = binary.BigEndian.AppendUint64(a.values, v)
	a.appendParam(id, typ, n)
}

// appendParam adds a parameter whose value begins at start in a.values.
func (a *Array) appendParam(id pdu.PMID, typ pdu.MetricType, start int) {
	r := &a.recs[len(a.recs)-1]
	// If append reallocates a.params or a.values, earlier records keep pointing to
	// the old memory, which has their data.
	a.params = append(a.params, pdu.EventParam{PMID: id, Type: typ, Value: a.values[start:len(a.values):len(a.values)]})
	n := len(a.params)
	first := n - 1 - len(r.Params)
	r.Params = a.params[first:n:n]
	a.size += 8 + (len(a.values)-start+3)&^3
}

// A mark is a length of an Array, for truncate.
type mark struct{ recs, params, values, size int }

func (a *Array) mark() mark { return mark{len(a.recs), len(a.params), len(a.values), a.size} }

// truncate removes what was added since m.
func (a *Array) truncate(m mark) {
	a.recs, a.params, a.values, a.size = a.recs[:m.recs], a.params[:m.params], a.values[:m.values], m.size
}
