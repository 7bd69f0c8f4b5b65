package pmda_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

func u64(n uint64) []byte  { return binary.BigEndian.AppendUint64(nil, n) }
func f32(f float32) []byte { return binary.BigEndian.AppendUint32(nil, math.Float32bits(f)) }
func f64(f float64) []byte { return u64(math.Float64bits(f)) }
func i64(n int64) []byte   { return u64(uint64(n)) }
func text(s string) []byte { return append([]byte(s), 0) }
func word(n int32) *[]byte { b := binary.BigEndian.AppendUint32(nil, uint32(n)); return &b }

// show1 returns v, or the code of err.
func show1(v any, err error) string {
	var code pdu.Errno
	if errors.As(err, &code) {
		return strings.TrimPrefix(code.Name(), "PM_ERR_")
	}
	return fmt.Sprint(v)
}

// All conversions of stored values, as in the table of pmExtractValue(3).
func TestStored(t *testing.T) {
	tests := []struct {
		typ    pdu.MetricType
		insitu *[]byte
		block  []byte
		want   string // int32 uint32 int64 uint64 float string bytes
	}{
		{pdu.Metric32, word(-3), nil, "-3 SIGN -3 SIGN -3 -3 CONV"},
		{pdu.Metric32, word(7), nil, "7 7 7 7 7 7 CONV"},
		{pdu.MetricU32, word(-1), nil, "TRUNC 4294967295 4294967295 4294967295 4.294967295e+09 4294967295 CONV"},
		{pdu.MetricFloat, word(0x40200000), nil, "2 2 2 2 2.5 2.5 CONV"},
		{pdu.Metric64, word(7), nil, "CONV CONV CONV CONV CONV CONV CONV"}, // a 64-bit value cannot be in-situ
		{pdu.Metric64, nil, i64(-1 << 40), "TRUNC SIGN -1099511627776 SIGN -1.099511627776e+12 -1099511627776 CONV"},
		{pdu.MetricU64, nil, u64(1 << 63), "TRUNC TRUNC TRUNC 9223372036854775808 9.223372036854776e+18 9223372036854775808 CONV"},
		{pdu.MetricFloat, nil, f32(-1.5), "-1 SIGN -1 SIGN -1.5 -1.5 CONV"},
		{pdu.MetricDouble, nil, f64(1e10), "TRUNC TRUNC 10000000000 10000000000 1e+10 1e+10 CONV"},
		{pdu.MetricDouble, nil, f64(1e30), "TRUNC TRUNC TRUNC TRUNC 1e+30 1e+30 CONV"},
		{pdu.MetricDouble, nil, f64(math.NaN()), "TRUNC TRUNC TRUNC TRUNC NaN NaN CONV"},
		{pdu.MetricDouble, nil, f64(math.Inf(-1)), "TRUNC SIGN TRUNC SIGN -Inf -Inf CONV"},
		{pdu.MetricDouble, nil, f32(1), "CONV CONV CONV CONV CONV CONV CONV"}, // too short
		{pdu.MetricU64, nil, []byte{}, "CONV CONV CONV CONV CONV CONV CONV"},
		{pdu.MetricString, nil, text("12"), "CONV CONV CONV CONV CONV 12 CONV"},
		{pdu.MetricString, nil, []byte("no NUL"), "CONV CONV CONV CONV CONV no NUL CONV"},
		{pdu.MetricAggregate, nil, []byte{1, 2}, "CONV CONV CONV CONV CONV CONV [1 2]"},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%d %v", i, tt.typ), func(t *testing.T) {
			var got string
			m := row(0, nil)
			m.Type = tt.typ
			m.Store = func(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
				v := s.Values[0]
				a, e := v.AsInt32()
				b, f := v.AsUint32()
				c, g := v.AsInt64()
				d, h := v.AsUint64()
				x, i := v.AsFloat()
				y, j := v.AsString()
				z, k := v.AsBytes()
				got = strings.Join([]string{show1(a, e), show1(b, f), show1(c, g), show1(d, h), show1(x, i), show1(y, j), show1(z, k)}, " ")
				return nil
			}
			tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
			set := pdu.ValueSet{PMID: id(0, 0), Format: pdu.FormatInsitu, Values: []pdu.Value{{Inst: -1}}}
			if tt.insitu != nil {
				set.Values[0].Word = binary.BigEndian.Uint32(*tt.insitu)
			} else {
				set.Format = pdu.FormatInsitu + 1
				set.Values[0].Type, set.Values[0].Block = tt.typ, tt.block
			}
			if err := transporttest.Do(tr, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{set}}, new(pdu.Error)); err != nil {
				t.Errorf("%v: %v", tt.typ, err)
			}
			if got != tt.want {
				t.Errorf("%v %x: %q, want %q", tt.typ, tt.block, got, tt.want)
			}
		})
	}
}

// The type of a value is the one in the request, not that of the metric: a client
// may store a number into a text.
func TestStoredOfOtherType(t *testing.T) {
	var got string
	m := row(0, nil)
	m.Store = func(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
		n, err := s.Values[0].AsUint32()
		got = show1(n, err)
		return err
	}
	for _, tt := range []struct {
		metric, typ pdu.MetricType
		block       []byte
		want        string
	}{
		{pdu.MetricU32, pdu.Metric64, i64(5), "5"},
		{pdu.MetricU32, pdu.MetricDouble, f64(5.5), "5"},
		{pdu.MetricU32, pdu.MetricString, text("5"), "CONV"},
		{pdu.MetricU64, pdu.MetricString, []byte("12345678"), "CONV"}, // has the length of a number
		{pdu.MetricU64, pdu.MetricAggregate, u64(5), "CONV"},
		{pdu.MetricString, pdu.MetricU64, u64(5), "5"},
	} {
		m.Type = tt.metric
		tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
		set := pdu.ValueSet{PMID: id(0, 0), Format: pdu.FormatBlock, Values: []pdu.Value{{Inst: -1, Type: tt.typ, Block: tt.block}}}
		err := transporttest.Do(tr, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{set}}, new(pdu.Error))
		if wantErr := tt.want == "CONV"; got != tt.want || wantErr != (err == error(pdu.ErrnoConv)) {
			t.Errorf("%v into %v: %q, %v, want %q", tt.typ, tt.metric, got, err, tt.want)
		}
	}
}

// A store ends at the first error. Config.Store gets all value sets at once.
func TestStore(t *testing.T) {
	var stored []string
	store := func(err error) pmda.StoreFunc {
		return func(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
			stored = append(stored, fmt.Sprint(s.PMID, len(s.Values)))
			return err
		}
	}
	m0, m1, m2, m3 := row(0, nil), row(1, nil), row(2, nil), row(3, nil)
	m0.Store, m1.Store, m3.Store = store(nil), store(pdu.ErrnoBadStore), store(errors.New("no room"))
	c := pmda.Config{Name: "shelf", Metrics: []pmda.Metric{m0, m1, m2, m3}}
	set := func(items ...int) *pdu.Result {
		r := new(pdu.Result)
		for _, item := range items {
			r.Sets = append(r.Sets, pdu.ValueSet{PMID: id(0, item), Values: []pdu.Value{{Inst: 0}, {Inst: 1}}})
		}
		return r
	}
	tests := []struct {
		req  *pdu.Result
		err  error
		want string
	}{
		{set(0, 0), nil, "[400.0.0 2 400.0.0 2]"},
		{set(0, 1, 0), pdu.ErrnoBadStore, "[400.0.0 2 400.0.1 2]"},
		{set(2, 0), pdu.ErrnoPermission, "[]"},
		{set(9), pdu.ErrnoPMID, "[]"},
		{set(3), pdu.ErrnoGeneric, "[400.0.3 2]"},
	}
	tr, log := start(t, c)
	for _, tt := range tests {
		stored = nil
		if err := transporttest.Do(tr, agents.Origin{}, tt.req, new(pdu.Error)); err != tt.err || fmt.Sprint(stored) != tt.want {
			t.Errorf("%v: %v, %v; want %v, %v", tt.req.Sets, err, stored, tt.err, tt.want)
		}
	}
	if !strings.Contains(log.String(), "shelf: store into 0.3: no room") {
		t.Errorf("log: %s", log)
	}

	c.Store = func(_ context.Context, r *pmda.Request, sets []pmda.Stored) error {
		if sets[1].Metric != nil || sets[0].Metric.Item != 0 || r.Origin.Client != 4 {
			t.Errorf("store of %v by %d", sets, r.Origin.Client)
		}
		return pdu.ErrnoSign
	}
	tr, _ = start(t, c)
	if err := transporttest.Do(tr, agents.Origin{Client: 4}, set(0, 9), new(pdu.Error)); err != error(pdu.ErrnoSign) {
		t.Errorf("Config.Store: %v", err)
	}
}
