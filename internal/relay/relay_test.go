package relay

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestCheckResult(t *testing.T) {
	n := 0
	for _, c := range captures(t) {
		_, m, err := pdu.Parse(c.wire)
		r, ok := m.(*pdu.Result)
		if err != nil || !ok {
			continue
		}
		n++
		ids := pmids(r.Sets)
		if err := CheckResult(c.wire, ids); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		for i := range ids {
			off := pdu.HeaderLen
			ids[i]++
			err := CheckResult(c.wire, ids)
			ids[i]--
			var pe *pdu.ParseError
			if !errors.Is(err, pdu.ErrPMID) || !errors.As(err, &pe) || pe.Off <= off {
				t.Errorf("%s: other PMID %d: got %v", c.file, i, err)
			}
		}
		if err := CheckResult(c.wire, append(ids, 1)); !errors.Is(err, pdu.ErrCount) {
			t.Errorf("%s: one set too few: got %v", c.file, err)
		}
		if err := CheckResult(c.wire, ids[1:]); !errors.Is(err, pdu.ErrCount) {
			t.Errorf("%s: one set too many: got %v", c.file, err)
		}
		for i := range c.wire { // cut anywhere, with a length that is right or not
			if err := CheckResult(c.wire[:i], ids); err == nil {
				t.Errorf("%s: %d bytes accepted", c.file, i)
			}
			if i < pdu.HeaderLen {
				continue
			}
			cut := bytes.Clone(c.wire[:i])
			cut[2], cut[3] = byte(i>>8), byte(i)
			if err := CheckResult(cut, ids); err == nil {
				t.Errorf("%s: cut to %d bytes and accepted", c.file, i)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d results among the captures", n)
	}
}

func TestCheckResultRefuses(t *testing.T) {
	ids := []pdu.PMID{0x07400004}
	tests := []struct {
		name string
		wire string
		err  error
		off  int
	}{
		{"nothing", "", pdu.ErrShort, 0},
		{"header", "0000000c 00007001 00000000", pdu.ErrShort, 12},
		{"length lies", "0000001c 00007001 00000000 00000000 00000000 00000000", pdu.ErrLength, 12},
		{"highres", "00000018 00007015 00000000 00000000 00000000 00000000", pdu.ErrUnknownType, 12},
		{"negative count", "00000018 00007001 00000000 00000000 00000000 ffffffff", pdu.ErrCount, 24},
		{"no set", "00000018 00007001 00000000 00000000 00000000 00000001", pdu.ErrShort, 24},
		{"other metric", "00000020 00007001 00000000 00000000 00000000 00000001 07400005 00000000", pdu.ErrPMID, 28},
		{"no format", "00000020 00007001 00000000 00000000 00000000 00000001 07400004 00000001", pdu.ErrShort, 32},
		{"values", "0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000002 00000000 00000000 00000000", pdu.ErrCount, 36},
		{"huge count", "0000002c 00007001 00000000 00000000 00000000 00000001 07400004 7fffffff 00000000 00000000 00000000", pdu.ErrCount, 36},
		{"tail", "00000024 00007001 00000000 00000000 00000000 00000001 07400004 00000000 00000000", pdu.ErrLength, 32},
		{
			"block in the header",
			"0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 00000000",
			pdu.ErrOffset, 44,
		},
		{
			"block at the end",
			"0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b",
			pdu.ErrOffset, 44,
		},
		{
			"gap before the block",
			"00000034 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000c 00000000 06000004",
			pdu.ErrOffset, 44,
		},
		{
			"tail behind the block",
			"00000034 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b 06000004 00000000",
			pdu.ErrLength, 44,
		},
		{
			"shared block",
			"00000038 00007001 00000000 00000000 00000000 00000001 07400004 00000002 00000001 00000000 0000000d 00000001 0000000d 06000004",
			pdu.ErrLength, 52,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckResult(unhex(t, tt.wire), ids)
			var pe *pdu.ParseError
			if !errors.Is(err, tt.err) || !errors.As(err, &pe) || pe.Off != tt.off {
				t.Errorf("got %v, want %v at byte %d", err, tt.err, tt.off)
			}
		})
	}
	if err := CheckResult(unhex(t, "00000018 00007001 00000000 00000000 00000000 00000000"), nil); err != nil {
		t.Errorf("no sets: %v", err)
	}
}

// spare returns wire with the bytes before it that ToHighRes needs.
func spare(wire []byte) []byte { return append(bytes.Repeat([]byte{0xa5}, SpareHighRes), wire...) }

func TestToHighRes(t *testing.T) {
	for _, c := range captures(t) {
		_, m, err := pdu.Parse(c.wire)
		r, ok := m.(*pdu.Result)
		if err != nil || !ok {
			continue
		}
		b := spare(c.wire)
		ToHighRes(b)
		SetHighResTime(b, 1<<33, -1)
		SetFrom(b, 5)
		want := &pdu.HighResResult{Sec: 1 << 33, Nsec: -1, Sets: r.Sets}
		from, got, err := pdu.Parse(b)
		if err != nil || from != 5 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %d %+v, %v\nwant 5 %+v", c.file, from, got, err, want)
		}
		wire, err := pdu.Append(nil, 5, want)
		if err != nil || !bytes.Equal(b, wire) {
			t.Errorf("%s: %v:\n got %x\nwant %x", c.file, err, b, wire)
		}
	}
}

func TestResultTime(t *testing.T) {
	b := unhex(t, "00000018 00007001 00000000 00000008 00000009 00000000")
	if got := StateFlags(b); got != pdu.StateLabelChange {
		t.Errorf("state flags %d", got)
	}
	SetResultTime(b, -1, 7)
	if want := unhex(t, "00000018 00007001 00000000 ffffffff 00000007 00000000"); !bytes.Equal(b, want) {
		t.Errorf("got %x after SetResultTime, want %x", b, want)
	}
	if got := StateFlags(b[:20]); got != 0 {
		t.Errorf("state flags %d of a short PDU", got)
	}
}

// big is a Result of an agent with many instances: 200 metrics with 10 instances each,
// half of them with words and half with 64-bit values.
func big() (wire []byte, ids []pdu.PMID) {
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	for i := range 200 {
		id := pdu.NewPMID(60, i/100, i)
		ids = append(ids, id)
		w.Begin(id)
		for inst := range int32(10) {
			if i%2 == 0 {
				w.Word(inst, uint32(i))
			} else {
				w.Uint64(inst, pdu.MetricU64, uint64(i))
			}
		}
	}
	wire, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return wire, ids
}

func TestRelayAllocs(t *testing.T) {
	wire, ids := big()
	src := spare(wire)
	b := make([]byte, len(src))
	n := testing.AllocsPerRun(10, func() {
		copy(b, src)
		if err := CheckResult(b[SpareHighRes:], ids); err != nil {
			t.Fatal(err)
		}
		ToHighRes(b)
		SetHighResTime(b, 1, 2)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheckResult(b *testing.B) {
	wire, ids := big()
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckResult(wire, ids); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkToHighRes(b *testing.B) {
	wire, _ := big()
	src := spare(wire)
	dst := make([]byte, len(src))
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		copy(dst, src) // it can be done once only
		ToHighRes(dst)
	}
}

// Many metrics of three agents, most without instances, six of an agent in turn.
func BenchmarkMove(b *testing.B) {
	var agent pdu.ResultWriter
	agent.Reset(nil, 0)
	var ids []pdu.PMID
	for i := range 3000 {
		id := pdu.NewPMID(60, i/1000, i%1000)
		ids = append(ids, id)
		agent.Begin(id)
		switch i % 6 {
		case 0, 1, 2:
			agent.Word(pdu.NoInst, uint32(i))
		case 3:
			agent.Uint64(pdu.NoInst, pdu.MetricU64, uint64(i))
		case 4:
			agent.String(pdu.NoInst, "Linux")
		case 5:
			for inst := range int32(3) {
				agent.Float32(inst, 0.5)
			}
		}
	}
	wire, err := agent.Finish()
	if err != nil {
		b.Fatal(err)
	}
	var w ResultWriter
	var replies [3][]byte
	var sets [3]Sets
	var dst []byte
	b.SetBytes(int64(len(replies) * len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		w.ResetHighRes(dst[:0], 0)
		for i := range replies {
			replies[i] = append(replies[i][:0], wire...) // Move writes to it
			if err = sets[i].Open(replies[i], ids); err != nil {
				b.Fatal(err)
			}
		}
		for i := range sets {
			w.Join(&sets[i])
		}
		for range len(ids) / 6 {
			for i := range sets {
				w.Move(&sets[i], 6)
			}
		}
		if dst, err = w.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
