package pdu

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
)

// unpad replaces the padding of event parameters, which is undefined in captures, by
// that of AppendEvents.
func unpad(typ MetricType, block []byte) []byte {
	recs, err := ParseEvents(typ, block)
	if err != nil {
		return block
	}
	b := bytes.Clone(block)
	off := 4
	for _, r := range recs {
		off += 16
		if typ == MetricHighResEvent {
			off += 8
		}
		for _, p := range r.Params {
			off += 8 + len(p.Value)
			for ; off%4 != 0; off++ {
				b[off] = '~'
			}
		}
	}
	return b
}

func TestEventCaptures(t *testing.T) {
	n := 0
	for _, c := range captures(t) {
		_, m, err := Parse(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		var sets []ValueSet
		switch m := m.(type) {
		case *Result:
			sets = m.Sets
		case *HighResResult:
			sets = m.Sets
		}
		for _, vs := range sets {
			for _, v := range vs.Values {
				if v.Type != MetricEvent && v.Type != MetricHighResEvent {
					continue
				}
				recs, err := ParseEvents(v.Type, v.Block)
				if err != nil {
					t.Errorf("%s: %v", c.file, err)
					continue
				}
				n += len(recs)
				got, err := AppendEvents([]byte("before"), v.Type, recs)
				if want := append([]byte("before"), unpad(v.Type, v.Block)...); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %v\n got %x\nwant %x", c.file, err, got, want)
				}
			}
		}
	}
	if n < 9 {
		t.Errorf("%d event records among the captures", n)
	}
}

var events = []struct {
	name string
	typ  MetricType
	wire string
	recs []EventRecord
}{
	{"none", MetricEvent, "00000000", nil},
	{
		"event", MetricEvent,
		"00000002 00000001 00000002 00000001 00000002 07400086 0600000a 62696e67 6f217e7e 07400087 01000008 0000000b " +
			"00000003 00000004 80000000 00000007",
		[]EventRecord{
			{Sec: 1, Nsec: 2000, Flags: EventPoint, Params: []EventParam{
				{PMID: 0x07400086, Type: MetricString, Value: []byte("bingo!")},
				{PMID: 0x07400087, Type: MetricU32, Value: []byte{0, 0, 0, 11}},
			}},
			{Sec: 3, Nsec: 4000, Flags: EventMissed, Missed: 7},
		},
	},
	{
		"highres event", MetricHighResEvent,
		"00000001 00000001 00000000 00000000 00000002 00000006 00000001 07400086 07000004",
		[]EventRecord{{
			Sec: 1 << 32, Nsec: 2, Flags: EventStart | EventEnd,
			Params: []EventParam{{PMID: 0x07400086, Type: MetricAggregate, Value: []byte{}}},
		}},
	},
}

func TestEvents(t *testing.T) {
	for _, tt := range events {
		t.Run(tt.name, func(t *testing.T) {
			want := unhex(t, tt.wire)
			got, err := AppendEvents(nil, tt.typ, tt.recs)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("AppendEvents: %v\n got %x\nwant %x", err, got, want)
			}
			recs, err := ParseEvents(tt.typ, want)
			if err != nil || !reflect.DeepEqual(recs, tt.recs) {
				t.Errorf("ParseEvents: %v\n got %+v\nwant %+v", err, recs, tt.recs)
			}
		})
	}
}

func TestEventsRefuses(t *testing.T) {
	tests := []struct {
		name string
		typ  MetricType
		wire string
		err  error
		off  int
	}{
		{"other type", MetricString, "00000000", ErrField, 0},
		{"nothing", MetricEvent, "", ErrShort, 0},
		{"records", MetricEvent, "00000001", ErrCount, 4},
		{"negative records", MetricEvent, "ffffffff", ErrCount, 4},
		{"record of 16 bytes", MetricHighResEvent, "00000001 00000000 00000000 00000000 00000000", ErrCount, 4},
		{"parameters", MetricEvent, "00000001 00000000 00000000 00000000 00000001", ErrCount, 20},
		{"negative parameters", MetricEvent, "00000001 00000000 00000000 00000000 ffffffff", ErrCount, 20},
		{"negative missed", MetricEvent, "00000001 00000000 00000000 80000000 ffffffff", ErrCount, 20},
		{"parameter of 3 bytes", MetricEvent, "00000001 00000000 00000000 00000000 00000001 07400086 06000003", ErrCount, 28},
		{"parameter runs out", MetricEvent, "00000001 00000000 00000000 00000000 00000001 07400086 06000005", ErrShort, 28},
		{"no padding", MetricEvent, "00000001 00000000 00000000 00000000 00000001 07400086 06000005 61", ErrShort, 29},
		{"tail", MetricEvent, "00000000 00000000", ErrLength, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseEvents(tt.typ, unhex(t, tt.wire))
			var pe *ParseError
			if !errors.Is(err, tt.err) || !errors.As(err, &pe) || pe.Off != tt.off {
				t.Errorf("got %v, want %v at byte %d", err, tt.err, tt.off)
			}
		})
	}
	for _, r := range []EventRecord{
		{Sec: 1 << 31},
		{Nsec: math.MaxInt64},
		{Flags: EventMissed, Missed: -1},
		{Flags: EventMissed, Params: make([]EventParam, 1)},
		{Params: []EventParam{{Type: -1}}},
		{Params: []EventParam{{Value: make([]byte, 1<<24)}}},
		{Params: []EventParam{{Value: make([]byte, 1<<23)}, {Value: make([]byte, 1<<23)}}},
	} {
		if b, err := AppendEvents([]byte("before"), MetricEvent, []EventRecord{r}); err == nil || string(b) != "before" {
			t.Errorf("got %d bytes, %v", len(b), err)
		}
	}
}
