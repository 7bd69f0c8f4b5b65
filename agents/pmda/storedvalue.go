package pmda

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// AsInt32 returns the value as an int32.
func (v StoredValue) AsInt32() (int32, error) {
	n, err := v.AsInt64()
	if err == nil && n != int64(int32(n)) {
		return 0, pdu.ErrnoTrunc
	}
	return int32(n), err
}

// AsUint32 returns the value as a uint32.
func (v StoredValue) AsUint32() (uint32, error) {
	n, err := v.AsUint64()
	if err == nil && n != uint64(uint32(n)) {
		return 0, pdu.ErrnoTrunc
	}
	return uint32(n), err
}

// AsInt64 returns the value as an int64.
func (v StoredValue) AsInt64() (int64, error) {
	n, err := v.number()
	switch {
	case err != nil:
		return 0, err
	case n.kind == isUint && n.bits > math.MaxInt64:
		return 0, pdu.ErrnoTrunc
	case n.kind == isFloat:
		f := math.Float64frombits(n.bits)
		if !(f >= -1<<63 && f < 1<<63) {
			return 0, pdu.ErrnoTrunc
		}
		return int64(f), nil
	}
	return int64(n.bits), nil
}

// AsUint64 returns the value as a uint64.
func (v StoredValue) AsUint64() (uint64, error) {
	n, err := v.number()
	switch {
	case err != nil:
		return 0, err
	case n.kind == isInt && int64(n.bits) < 0:
		return 0, pdu.ErrnoSign
	case n.kind == isFloat:
		f := math.Float64frombits(n.bits)
		switch {
		case f < 0:
			return 0, pdu.ErrnoSign
		case !(f < 1<<64):
			return 0, pdu.ErrnoTrunc
		}
		return uint64(f), nil
	}
	return n.bits, nil
}

// AsFloat returns the value as a float64.
func (v StoredValue) AsFloat() (float64, error) {
	n, err := v.number()
	switch {
	case err != nil:
		return 0, err
	case n.kind == isInt:
		return float64(int64(n.bits)), nil
	case n.kind == isUint:
		return float64(n.bits), nil
	}
	return math.Float64frombits(n.bits), nil
}

// AsString returns the value as a string: text up to a NUL, or a number in
// decimal.
func (v StoredValue) AsString() (string, error) {
	if v.typ == pdu.MetricString && v.value.Block != nil {
		text, _, _ := bytes.Cut(v.value.Block, []byte{0})
		return string(text), nil
	}
	n, err := v.number()
	switch {
	case err != nil:
		return "", err
	case n.kind == isInt:
		return strconv.FormatInt(int64(n.bits), 10), nil
	case n.kind == isUint:
		return strconv.FormatUint(n.bits, 10), nil
	}
	return strconv.FormatFloat(math.Float64frombits(n.bits), 'g', -1, 64), nil
}

// AsBytes returns the bytes of an aggregate. They are valid until the call of
// the StoreFunc returns.
func (v StoredValue) AsBytes() ([]byte, error) {
	if v.typ != pdu.MetricAggregate && v.typ != pdu.MetricAggregateStatic || v.value.Block == nil {
		return nil, pdu.ErrnoConv
	}
	return v.value.Block, nil
}

type number struct {
	kind kind // isInt, isUint or isFloat
	bits uint64
}

// number decodes a value that is a number.
func (v StoredValue) number() (number, error) {
	b := v.value.Block
	if b == nil {
		switch v.typ {
		case pdu.Metric32:
			return number{isInt, uint64(int64(int32(v.value.Word)))}, nil
		case pdu.MetricU32:
			return number{isUint, uint64(v.value.Word)}, nil
		case pdu.MetricFloat:
			return number{isFloat, math.Float64bits(float64(math.Float32frombits(v.value.Word)))}, nil
		}
		return number{}, pdu.ErrnoConv
	}
	switch {
	case v.typ == pdu.MetricFloat && len(b) == 4:
		return number{isFloat, math.Float64bits(float64(math.Float32frombits(binary.BigEndian.Uint32(b))))}, nil
	case len(b) != 8:
		return number{}, pdu.ErrnoConv
	}
	bits := binary.BigEndian.Uint64(b)
	switch v.typ {
	case pdu.Metric64:
		return number{isInt, bits}, nil
	case pdu.MetricU64:
		return number{isUint, bits}, nil
	case pdu.MetricDouble:
		return number{isFloat, bits}, nil
	}
	return number{}, pdu.ErrnoConv
}
