package pmapi

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

func TestValue(t *testing.T) {
	type result struct {
		v   any
		err error
	}
	conv, trunc, sign := pdu.ErrnoConv, pdu.ErrnoTrunc, pdu.ErrnoSign
	for _, tt := range []struct {
		v    Value
		text string
		i, u result
		f    result
	}{
		{Value{}, "0", result{int64(0), nil}, result{uint64(0), nil}, result{0.0, nil}},
		{ValueOf(int32(-5)), "-5", result{int64(-5), nil}, result{uint64(0), sign}, result{-5.0, nil}},
		{ValueOf(uint32(math.MaxUint32)), "4294967295", result{int64(math.MaxUint32), nil}, result{uint64(math.MaxUint32), nil}, result{float64(math.MaxUint32), nil}},
		{ValueOf(int64(math.MinInt64)), "-9223372036854775808", result{int64(math.MinInt64), nil}, result{uint64(0), sign}, result{-math.Exp2(63), nil}},
		{ValueOf(uint64(math.MaxUint64)), "18446744073709551615", result{int64(0), trunc}, result{uint64(math.MaxUint64), nil}, result{math.Exp2(64), nil}},
		{ValueOf(float32(0.26)), "0.25999999", result{int64(0), nil}, result{uint64(0), nil}, result{float64(float32(0.26)), nil}},
		{ValueOf(-1.5), "-1.5", result{int64(-1), nil}, result{uint64(0), sign}, result{-1.5, nil}},
		{ValueOf(1e300), "1e+300", result{int64(0), trunc}, result{uint64(0), trunc}, result{1e300, nil}},
		{ValueOf(math.Exp2(63)), "9.223372036854776e+18", result{int64(0), trunc}, result{uint64(1 << 63), nil}, result{math.Exp2(63), nil}},
		{ValueOf(math.Inf(1)), "inf", result{int64(0), trunc}, result{uint64(0), trunc}, result{math.Inf(1), nil}},
		{ValueOf("a"), `"a"`, result{int64(0), conv}, result{uint64(0), conv}, result{0.0, conv}},
		{ValueOf(`a"b`), `"a"b"`, result{int64(0), conv}, result{uint64(0), conv}, result{0.0, conv}},
		{ValueOf([]byte("13")), `"13" [3133]`, result{int64(0), conv}, result{uint64(0), conv}, result{0.0, conv}},
		{ValueOf([]byte{0, 1, 2, 3, 0xff}), "[00010203ff]", result{int64(0), conv}, result{uint64(0), conv}, result{0.0, conv}},
	} {
		check := func(what string, v any, err error, want result) {
			if v != want.v || !errors.Is(err, want.err) {
				t.Errorf("%s of %v %v: %v, %v; want %v, %v", what, tt.v.Type(), tt.v, v, err, want.v, want.err)
			}
		}
		i, err := tt.v.Int64()
		check("Int64", i, err, tt.i)
		u, err := tt.v.Uint64()
		check("Uint64", u, err, tt.u)
		f, err := tt.v.Float64()
		check("Float64", f, err, tt.f)
		if got := tt.v.String(); got != tt.text {
			t.Errorf("String of %v: %q, want %q", tt.v.Type(), got, tt.text)
		}

		// What is stored is what comes back.
		set := NewValueSet(1, 2, tt.v)
		wire, err := pdu.Append(nil, 0, &pdu.Result{Sets: []pdu.ValueSet{set}})
		if err != nil {
			t.Fatal(err)
		}
		var r pdu.Result
		if _, err := pdu.ParseInto(wire, &r); err != nil {
			t.Fatal(err)
		}
		got, err := Decode(&r.Sets[0], r.Sets[0].Values[0], tt.v.Type())
		if err != nil || got.bits != tt.v.bits || !bytes.Equal(got.bytes, tt.v.bytes) || r.Sets[0].Values[0].Inst != 2 {
			t.Errorf("%v %v comes back as %v, %v", tt.v.Type(), tt.v, got, err)
		}
	}
	if f, err := ValueOf(math.NaN()).Int64(); f != 0 || !errors.Is(err, pdu.ErrnoTrunc) {
		t.Errorf("Int64 of NaN: %v, %v", f, err)
	}
	if s, err := ValueOf(uint32(1)).Text(); s != "1" || err != nil {
		t.Errorf("Text: %q, %v", s, err)
	}
	if _, err := ValueOf([]byte("x")).Text(); !errors.Is(err, pdu.ErrnoConv) {
		t.Errorf("Text of an aggregate: %v", err)
	}
	if b, err := ValueOf([]byte("x")).Bytes(); string(b) != "x" || err != nil {
		t.Errorf("Bytes: %q, %v", b, err)
	}
	if _, err := ValueOf("x").Bytes(); !errors.Is(err, pdu.ErrnoConv) {
		t.Errorf("Bytes of a string: %v", err)
	}
	if _, err := ValueOf("x").Events(); !errors.Is(err, pdu.ErrnoConv) {
		t.Errorf("Events of a string: %v", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	block := func(typ pdu.MetricType, n int) (pdu.ValueSet, pdu.Value) {
		return pdu.ValueSet{Format: pdu.FormatBlock}, pdu.Value{Type: typ, Block: make([]byte, n)}
	}
	for _, typ := range []pdu.MetricType{pdu.Metric64, pdu.MetricDouble, pdu.MetricString, pdu.MetricEvent, pdu.MetricNoSupport} {
		if _, err := Decode(&pdu.ValueSet{}, pdu.Value{}, typ); !errors.Is(err, pdu.ErrnoConv) {
			t.Errorf("%v in a word: %v", typ, err)
		}
	}
	for typ, n := range map[pdu.MetricType]int{pdu.MetricU64: 4, pdu.MetricDouble: 9, pdu.MetricFloat: 0, pdu.MetricNoSupport: 4, pdu.MetricUnknown: 4} {
		set, v := block(typ, n)
		if _, err := Decode(&set, v, typ); !errors.Is(err, pdu.ErrnoConv) {
			t.Errorf("%v of %d bytes: %v", typ, n, err)
		}
	}
	set, v := block(pdu.MetricU64, 8)
	if _, err := Decode(&set, v, pdu.MetricDouble); !errors.Is(err, pdu.ErrnoConv) {
		t.Errorf("U64 as DOUBLE: %v", err)
	}
	if got, err := Decode(&pdu.ValueSet{}, pdu.Value{Word: math.Float32bits(2)}, pdu.MetricFloat); err != nil || got.String() != "2" {
		t.Errorf("FLOAT in a word: %v, %v", got, err)
	}
}

func TestEventValue(t *testing.T) {
	const stamp = 1e9
	clock := time.Unix(stamp, 0).Format("15:04:05")
	for typ, want := range map[pdu.MetricType]string{
		pdu.MetricEvent:        "[2 event records (3 missed) timestamps " + clock + ".000..." + clock + ".001]",
		pdu.MetricHighResEvent: "[2 event records (3 missed) timestamps " + clock + ".000000000..." + clock + ".001000000]",
	} {
		b, err := pdu.AppendEvents(nil, typ, []pdu.EventRecord{{Sec: stamp, Flags: pdu.EventMissed, Missed: 3}, {Sec: stamp, Nsec: 1e6, Flags: pdu.EventPoint}})
		if err != nil {
			t.Fatal(err)
		}
		v := Value{typ: typ, bytes: b}
		if recs, err := v.Events(); err != nil || len(recs) != 2 {
			t.Errorf("%v: %v, %v", typ, recs, err)
		}
		if v.String() != want {
			t.Errorf("%v: %s, want %s", typ, v, want)
		}
	}
	if got := (Value{typ: pdu.MetricEvent, bytes: []byte{1}}).String(); got != "[bad event records]" {
		t.Errorf("damaged: %s", got)
	}
}

func TestParseValue(t *testing.T) {
	for _, tt := range []struct {
		typ        pdu.MetricType
		text, want string
		err        error
	}{
		{pdu.Metric32, "-12", "-12", nil},
		{pdu.Metric32, "0x10", "16", nil},
		{pdu.Metric32, "010", "8", nil},
		{pdu.Metric32, "2147483648", "", pdu.ErrnoTrunc},
		{pdu.MetricU32, "4294967295", "4294967295", nil},
		{pdu.MetricU32, "-1", "", pdu.ErrnoConv},
		{pdu.Metric64, "9223372036854775808", "", pdu.ErrnoTrunc},
		{pdu.MetricU64, "18446744073709551615", "18446744073709551615", nil},
		{pdu.MetricU64, "0b1", "", pdu.ErrnoConv},
		{pdu.MetricU64, "1_0", "", pdu.ErrnoConv},
		{pdu.MetricFloat, "0.5", "0.5", nil},
		{pdu.MetricFloat, "1e99", "", pdu.ErrnoTrunc},
		{pdu.MetricDouble, "1e99", "1e+99", nil},
		{pdu.MetricDouble, "x", "", pdu.ErrnoConv},
		{pdu.MetricString, "x y", `"x y"`, nil},
		{pdu.MetricString, "x\x00y", "", pdu.ErrnoConv},
		{pdu.MetricAggregate, "x", "", pdu.ErrnoType},
	} {
		v, err := ParseValue(tt.typ, tt.text)
		if !errors.Is(err, tt.err) || err == nil && (v.Type() != tt.typ || v.String() != tt.want) {
			t.Errorf("%v %q: %v %v, %v", tt.typ, tt.text, v.Type(), v, err)
		}
	}
}

func TestConvert(t *testing.T) {
	perSec := pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeSec, 0)
	for _, tt := range []struct {
		x        float64
		from, to pdu.Units
		want     float64
		err      error
	}{
		{2048, pdu.Byte, pdu.Kbyte, 2, nil},
		{1, pdu.Mbyte, pdu.Byte, 1 << 20, nil},
		{1500, pdu.Msec, pdu.Sec, 1.5, nil},
		{3, pdu.NewUnits(0, 1, 0, 0, pdu.TimeHour, 0), pdu.NewUnits(0, 1, 0, 0, pdu.TimeMin, 0), 180, nil},
		{1024, perSec, pdu.NewUnits(1, -1, 0, pdu.SpaceKbyte, pdu.TimeMin, 0), 60, nil},
		{5, pdu.NewUnits(0, 0, 1, 0, 0, 3), pdu.Count, 5000, nil},
		{5, pdu.NewUnits(0, 0, 0, 0, 0, 1), 0, 50, nil},
		{4, pdu.NewUnits(0, 2, 0, 0, pdu.TimeMsec, 0), pdu.NewUnits(0, 2, 0, 0, pdu.TimeUsec, 0), 4e6, nil},
		{7, pdu.Watt, pdu.Watt, 7, nil},
		{1, pdu.Byte, pdu.Sec, 0, pdu.ErrnoConv},
		{1, pdu.Byte, perSec, 0, pdu.ErrnoConv},
		{1, pdu.Watt, pdu.Kilowatt, 0, pdu.ErrnoConv},
		{1, pdu.NewUnits(1, 0, 0, 9, 0, 0), pdu.Byte, 0, pdu.ErrnoUnit},
		{1, pdu.Sec, pdu.NewUnits(0, 1, 0, 0, 6, 0), 0, pdu.ErrnoUnit},
	} {
		got, err := Convert(tt.x, tt.from, tt.to)
		if math.Abs(got-tt.want) > 1e-9*tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%v %v in %v: %v, %v; want %v", tt.x, tt.from, tt.to, got, err, tt.want)
		}
	}
}

func TestRate(t *testing.T) {
	for _, tt := range []struct {
		before, after Value
		wraps         bool
		want          float64
		err           error
	}{
		{ValueOf(uint32(10)), ValueOf(uint32(30)), false, 10, nil},
		{ValueOf(uint64(1 << 63)), ValueOf(uint64(1<<63 + 1)), false, 0.5, nil},
		{ValueOf(uint32(math.MaxUint32)), ValueOf(uint32(1)), false, 0, ErrReset},
		{ValueOf(uint32(math.MaxUint32)), ValueOf(uint32(1)), true, 1, nil},
		{ValueOf(uint32(1000)), ValueOf(uint32(1)), true, 0, ErrReset}, // a new start, not a wrap
		{ValueOf(int32(math.MaxInt32)), ValueOf(int32(math.MinInt32)), true, 0.5, nil},
		{ValueOf(int32(-4)), ValueOf(int32(2)), false, 3, nil},
		{ValueOf(int64(5)), ValueOf(int64(-5)), true, 0, ErrReset},
		{ValueOf(uint64(math.MaxUint64)), ValueOf(uint64(1)), true, 0, ErrReset},
		{ValueOf(1.0), ValueOf(2.0), false, 0.5, nil},
		{ValueOf(2.0), ValueOf(1.0), true, 0, ErrReset},
		{ValueOf(1.0), ValueOf(math.NaN()), false, 0, ErrReset},
		{ValueOf("a"), ValueOf("b"), false, 0, pdu.ErrnoConv},
		{ValueOf(uint32(1)), ValueOf(uint64(1)), false, 0, pdu.ErrnoConv},
	} {
		got, err := Rate(tt.before, tt.after, 2*time.Second, tt.wraps)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%v %v, %v: %v, %v; want %v", tt.before.Type(), tt.before, tt.after, got, err, tt.want)
		}
	}
	if _, err := Rate(Value{}, Value{}, 0, false); !errors.Is(err, pdu.ErrnoConv) {
		t.Errorf("rate in no time: %v", err)
	}
}

func TestRateUnits(t *testing.T) {
	for _, tt := range []struct {
		u      pdu.Units
		want   string
		factor float64
	}{
		{pdu.Count, "count / sec", 1},
		{pdu.Kbyte, "Kbyte / sec", 1},
		{pdu.Msec, "none", 1e-3},
		{pdu.NewUnits(0, 2, 0, 0, pdu.TimeMsec, 0), "millisec", 1e-3},
		{pdu.NewUnits(1, -1, 0, pdu.SpaceByte, pdu.TimeMin, 0), "byte / min^2", 60},
		{pdu.NewUnits(1, 1, 0, pdu.SpaceByte, pdu.TimeUsec, 0), "byte", 1e-6},
	} {
		if got, factor := RateUnits(tt.u); got.String() != tt.want || factor != tt.factor {
			t.Errorf("%v: %v, %v; want %s, %v", tt.u, got, factor, tt.want, tt.factor)
		}
	}
}
