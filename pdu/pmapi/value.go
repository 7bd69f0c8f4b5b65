package pmapi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// A Value is the value of a metric or of one of its instances, with its type. It is a copy
// but for the bytes of strings, aggregates and events, which belong to the Result that it was
// decoded from. The zero Value is a 0 of type pdu.Metric32.
type Value struct {
	typ   pdu.MetricType
	bits  uint64 // of a number
	bytes []byte
}

// Decode returns the value of a set from a [Result]. typ is the type in the metric's
// descriptor. Decode fails with pdu.ErrnoConv if v is no value of this type.
func Decode(set *pdu.ValueSet, v pdu.Value, typ pdu.MetricType) (Value, error) {
	bad := func() (Value, error) { return Value{}, fmt.Errorf("value of type %v: %w", typ, pdu.ErrnoConv) }
	if set.Format == pdu.FormatInsitu {
		switch typ {
		case pdu.Metric32, pdu.MetricU32, pdu.MetricFloat:
			return Value{typ: typ, bits: uint64(v.Word)}, nil
		}
		return bad()
	}
	if v.Type != typ && v.Type != pdu.MetricUnknown {
		return bad()
	}
	switch typ {
	case pdu.Metric32, pdu.MetricU32, pdu.MetricFloat:
		if len(v.Block) == 4 {
			return Value{typ: typ, bits: uint64(binary.BigEndian.Uint32(v.Block))}, nil
		}
	case pdu.Metric64, pdu.MetricU64, pdu.MetricDouble:
		if len(v.Block) == 8 {
			return Value{typ: typ, bits: binary.BigEndian.Uint64(v.Block)}, nil
		}
	case pdu.MetricString:
		// It ends at its first NUL, as in C.
		b, _, _ := bytes.Cut(v.Block, []byte{0})
		return Value{typ: typ, bytes: b}, nil
	case pdu.MetricAggregate, pdu.MetricAggregateStatic, pdu.MetricEvent, pdu.MetricHighResEvent:
		return Value{typ: typ, bytes: v.Block}, nil
	}
	return bad()
}

// ValueOf returns x as a Value of the type for it: pdu.Metric32 for an int32 and so on,
// pdu.MetricAggregate for a []byte, which it aliases.
func ValueOf[T int32 | uint32 | int64 | uint64 | float32 | float64 | string | []byte](x T) Value {
	switch x := any(x).(type) {
	case int32:
		return Value{typ: pdu.Metric32, bits: uint64(uint32(x))}
	case uint32:
		return Value{typ: pdu.MetricU32, bits: uint64(x)}
	case int64:
		return Value{typ: pdu.Metric64, bits: uint64(x)}
	case uint64:
		return Value{typ: pdu.MetricU64, bits: x}
	case float32:
		return Value{typ: pdu.MetricFloat, bits: uint64(math.Float32bits(x))}
	case float64:
		return Value{typ: pdu.MetricDouble, bits: math.Float64bits(x)}
	case string:
		return Value{typ: pdu.MetricString, bytes: []byte(x)}
	case []byte:
		return Value{typ: pdu.MetricAggregate, bytes: x}
	}
	panic("unreachable")
}

// Type returns the type of v.
func (v Value) Type() pdu.MetricType { return v.typ }

// conv returns the error of a conversion that has no result for v.
func (v Value) conv(code pdu.Errno) error { return fmt.Errorf("value %v: %w", v, code) }

// Float64 returns a number of any type. It fails with pdu.ErrnoConv for a value that is no
// number.
func (v Value) Float64() (float64, error) {
	switch v.typ {
	case pdu.Metric32:
		return float64(int32(v.bits)), nil
	case pdu.MetricU32, pdu.MetricU64:
		return float64(v.bits), nil
	case pdu.Metric64:
		return float64(int64(v.bits)), nil
	case pdu.MetricFloat:
		return float64(math.Float32frombits(uint32(v.bits))), nil
	case pdu.MetricDouble:
		return math.Float64frombits(v.bits), nil
	}
	return 0, v.conv(pdu.ErrnoConv)
}

// Int64 returns a number of any type, without its fraction. It fails with pdu.ErrnoTrunc for
// a number that is out of range, and with pdu.ErrnoConv for a value that is no number.
func (v Value) Int64() (int64, error) {
	switch v.typ {
	case pdu.Metric32:
		return int64(int32(v.bits)), nil
	case pdu.MetricU32, pdu.Metric64:
		return int64(v.bits), nil
	case pdu.MetricU64:
		if v.bits > math.MaxInt64 {
			return 0, v.conv(pdu.ErrnoTrunc)
		}
		return int64(v.bits), nil
	}
	f, err := v.Float64()
	if err != nil {
		return 0, err
	}
	if !(f >= math.MinInt64 && f < math.MaxInt64) { // false for NaN, too
		return 0, v.conv(pdu.ErrnoTrunc)
	}
	return int64(f), nil
}

// Uint64 is Int64 for an unsigned integer. It fails with pdu.ErrnoSign for a number below 0.
func (v Value) Uint64() (uint64, error) {
	switch v.typ {
	case pdu.MetricU32, pdu.MetricU64:
		return v.bits, nil
	case pdu.Metric32, pdu.Metric64:
		i, _ := v.Int64()
		if i < 0 {
			return 0, v.conv(pdu.ErrnoSign)
		}
		return uint64(i), nil
	}
	f, err := v.Float64()
	switch {
	case err != nil:
		return 0, err
	case f < 0:
		return 0, v.conv(pdu.ErrnoSign)
	case !(f < math.MaxUint64):
		return 0, v.conv(pdu.ErrnoTrunc)
	}
	return uint64(f), nil
}

// Text returns a string, and numbers as String does. It fails with pdu.ErrnoConv for
// aggregates and events.
func (v Value) Text() (string, error) {
	switch v.typ {
	case pdu.MetricString:
		return string(v.bytes), nil
	case pdu.MetricAggregate, pdu.MetricAggregateStatic, pdu.MetricEvent, pdu.MetricHighResEvent:
		return "", v.conv(pdu.ErrnoConv)
	}
	return v.String(), nil
}

// Bytes returns a copy of an aggregate. It fails with pdu.ErrnoConv for other values.
func (v Value) Bytes() ([]byte, error) {
	switch v.typ {
	case pdu.MetricAggregate, pdu.MetricAggregateStatic:
		return slices.Clone(v.bytes), nil
	}
	return nil, v.conv(pdu.ErrnoConv)
}

// Events returns the records of an event metric. It fails with pdu.ErrnoConv for other
// values. The parameters in the records belong to the Result.
func (v Value) Events() ([]pdu.EventRecord, error) {
	switch v.typ {
	case pdu.MetricEvent, pdu.MetricHighResEvent:
		return pdu.ParseEvents(v.typ, v.bytes)
	}
	return nil, fmt.Errorf("value of type %v: %w", v.typ, pdu.ErrnoConv)
}

// NewValueSet returns a value of an instance, or of a metric without instances
// ([pdu.NoInst]), for [Client.Store].
func NewValueSet(id pdu.PMID, inst int32, v Value) pdu.ValueSet {
	w := pdu.Value{Inst: inst, Type: v.typ}
	s := pdu.ValueSet{PMID: id, Format: pdu.FormatBlock}
	switch v.typ {
	case pdu.Metric32, pdu.MetricU32:
		s.Format = pdu.FormatInsitu
		w.Type, w.Word = 0, uint32(v.bits)
	case pdu.MetricFloat:
		w.Block = binary.BigEndian.AppendUint32(nil, uint32(v.bits))
	case pdu.Metric64, pdu.MetricU64, pdu.MetricDouble:
		w.Block = binary.BigEndian.AppendUint64(nil, v.bits)
	case pdu.MetricString:
		w.Block = append(slices.Clone(v.bytes), 0)
	default:
		w.Block = slices.Clone(v.bytes)
	}
	s.Values = []pdu.Value{w}
	return s
}
