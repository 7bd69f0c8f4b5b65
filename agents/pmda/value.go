package pmda

import (
	"math"

	"github.com/gopcp/pmcd/pdu"
)

// A Value is the value of one instance of a metric, which a [FetchFunc] sets.
//
// A number is converted to the type of the metric. One that the type cannot hold becomes
// the largest or the smallest number of the type; a negative number for an unsigned type,
// and NaN for an integer, are no value. A counter (pdu.SemCounter) of an integer type
// wraps instead, as in a Go conversion, because clients compute its rate.
//
// A number for a metric that is a text, or a text for a metric
// that is a number, is PM_ERR_TYPE. A text or aggregate of 16 MiB or more is
// PM_ERR_TOOBIG. If a FetchFunc calls several Set methods, the last one counts.
//
// A Value is valid until the FetchFunc returns. The Set methods do not allocate.
type Value struct {
	r      *Request
	m      *metric
	inst   int32
	name   string
	index  int
	listed *instance // nil unless a few instances are requested
	data   any
	kind   kind
	num    uint64 // an int64, a uint64, or the bits of a float64
	str    string
	bytes  []byte
	events []pdu.EventRecord
}

// A kind is the kind of value that was set.
type kind uint8

const (
	unset kind = iota
	isInt
	isUint
	isFloat
	isString
	isBytes
	isEvents
)

// Request returns the request that the value is for.
func (v *Value) Request() *Request { return v.r }

// Metric returns the row of the metric. It must not be changed.
func (v *Value) Metric() *Metric { return v.m.Metric }

// Inst returns the id of the instance, or pdu.NoInst for a metric without an
// instance domain.
func (v *Value) Inst() int32 { return v.inst }

// InstName returns the name of the instance, or "" for a metric without an instance
// domain.
func (v *Value) InstName() string { return v.name }

// Index returns the position of the instance among all [Instances], whether they
// are requested or not, starting at 0; or -1 for a metric without an instance
// domain.
func (v *Value) Index() int {
	if v.index == notCounted {
		v.m.requested.count()
		v.index = v.listed.index
	}
	return v.index
}

// Data returns the author's data for the instance, which Instances.Each passes to
// yield: the data in a cache.Cache, or nil for a [List].
func (v *Value) Data() any { return v.data }

// SetInt sets v to a signed number.
func (v *Value) SetInt(n int64) { v.kind, v.num = isInt, uint64(n) }

// SetUint sets v to an unsigned number.
func (v *Value) SetUint(n uint64) { v.kind, v.num = isUint, n }

// SetFloat sets v to a floating-point number.
func (v *Value) SetFloat(f float64) { v.kind, v.num = isFloat, math.Float64bits(f) }

// SetString sets v to a text. Clients ignore a NUL and what follows it.
func (v *Value) SetString(s string) { v.kind, v.str = isString, s }

// SetBytes sets v to an aggregate or a text. b must not change until the FetchFunc
// has returned, and is copied then.
func (v *Value) SetBytes(b []byte) { v.kind, v.bytes = isBytes, b }

// SetEvents sets v to event records, for types MetricEvent and MetricHighResEvent.
// recs must not change until the FetchFunc has returned, and is copied then.
func (v *Value) SetEvents(recs []pdu.EventRecord) { v.kind, v.events = isEvents, recs }

// limits are the smallest and the largest number of the integer types.
var limits = [...]struct {
	min int64
	max uint64
}{
	pdu.Metric32:  {math.MinInt32, math.MaxInt32},
	pdu.MetricU32: {0, math.MaxUint32},
	pdu.Metric64:  {math.MinInt64, math.MaxInt64},
	pdu.MetricU64: {0, math.MaxUint64},
}

// toInteger converts the number to an integer type, in two's complement. It unsets v if there
// is no value.
func (v *Value) toInteger(typ pdu.MetricType) {
	n, negative := v.num, v.kind == isInt && int64(v.num) < 0
	if v.kind == isFloat {
		switch f := math.Trunc(math.Float64frombits(v.num)); {
		case f >= 1<<64:
			n = math.MaxUint64
		case f >= 0:
			n = uint64(f)
		case f < -1<<63:
			n, negative = 1<<63, true
		case f < 0:
			n, negative = uint64(int64(f)), true
		default: // NaN
			v.kind = unset
			return
		}
	}
	switch limit := limits[typ]; {
	case v.m.desc.Sem == pdu.SemCounter: // the lower bits
	case !negative:
		n = min(n, limit.max)
	case limit.min == 0:
		v.kind = unset
	default:
		n = uint64(max(int64(n), limit.min))
	}
	v.num = n
}

// toFloat32 is toFloat64 for a metric of type float.
func (v *Value) toFloat32() float32 {
	f := v.toFloat64()
	if math.IsInf(f, 0) {
		return float32(f)
	}
	return float32(max(min(f, math.MaxFloat32), -math.MaxFloat32))
}

// toFloat64 converts the number to a float64.
func (v *Value) toFloat64() float64 {
	switch v.kind {
	case isFloat:
		return math.Float64frombits(v.num)
	case isInt:
		return float64(int64(v.num))
	}
	return float64(v.num)
}

// maxBlock is the maximum size of a value block in bytes, without its header
// (pmValueBlock, pmapi.h).
const maxBlock = 1<<24 - 1 - 4

// checkSize returns an error if n bytes are too many for a value block.
func checkSize(n int) error {
	if n > maxBlock {
		return pdu.ErrnoTooBig
	}
	return nil
}

// maxEscape is how many times as long a text can become when its control characters are escaped.
const maxEscape = 4

// escapeLong escapes the control characters of a text that may become too long for a value block when
// the ResultWriter escapes them, which would end the whole fetch.
func escapeLong(s string) string {
	if len(s) <= maxBlock/maxEscape {
		return s
	}
	return pdu.EscapeControls(s, "\t\n")
}

// encode prepares v for put. It converts a number to the type of the metric, which may leave
// v without a value, and encodes texts from SetBytes and events in scratch.
func (v *Value) encode(scratch *[]byte) error {
	typ := v.m.desc.ValueType
	switch {
	case typ <= pdu.MetricDouble:
		switch v.kind {
		case isInt, isUint, isFloat:
			if typ < pdu.MetricFloat {
				v.toInteger(typ)
			}
			return nil
		}
	case typ == pdu.MetricString && v.kind == isString:
		v.str = escapeLong(v.str)
		return checkSize(len(v.str) + 1)
	case typ == pdu.MetricString && v.kind == isBytes:
		if len(v.bytes) > maxBlock/maxEscape {
			v.bytes = []byte(escapeLong(string(v.bytes)))
		}
		*scratch = append(append((*scratch)[:0], v.bytes...), 0)
		v.bytes = *scratch
		return checkSize(len(v.bytes))
	case typ <= pdu.MetricAggregateStatic && v.kind == isBytes:
		return checkSize(len(v.bytes))
	case typ > pdu.MetricAggregateStatic && v.kind == isEvents:
		b, err := pdu.AppendEvents((*scratch)[:0], typ, v.events)
		if err != nil {
			return err
		}
		*scratch, v.bytes = b, b
		return checkSize(len(b))
	}
	return pdu.ErrnoType
}

// put appends v to the open value set of w.
func (v *Value) put(w *pdu.ResultWriter) {
	switch typ := v.m.desc.ValueType; typ {
	case pdu.Metric32, pdu.MetricU32:
		w.Word(v.inst, uint32(v.num))
	case pdu.Metric64, pdu.MetricU64:
		w.Uint64(v.inst, typ, v.num)
	case pdu.MetricFloat:
		w.Float32(v.inst, v.toFloat32())
	case pdu.MetricDouble:
		w.Float64(v.inst, v.toFloat64())
	case pdu.MetricString:
		if v.kind == isString {
			w.String(v.inst, v.str)
			return
		}
		fallthrough
	default:
		w.Block(v.inst, typ, v.bytes)
	}
}
