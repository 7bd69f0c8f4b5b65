package event

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Records and parameters are encoded as in C, and their size is known.
func TestArray(t *testing.T) {
	when := time.Unix(1, 2003)
	id := pdu.PMID(0x07400086)
	tests := []struct {
		name string
		typ  pdu.MetricType
		add  func(a *Array)
		want string // value block
	}{
		{"nothing", pdu.MetricEvent, func(a *Array) {}, "00000000"},
		{
			"microseconds", pdu.MetricEvent,
			func(a *Array) {
				a.AddRecord(when, pdu.EventStart|pdu.EventID)
				a.AddRecord(time.Unix(-1, 999_999_999), pdu.EventMissed|pdu.EventPoint)
			},
			"00000002 00000001 00000002 0000000a 00000000 ffffffff 000f423f 00000001 00000000",
		},
		{
			"nanoseconds", pdu.MetricHighResEvent,
			func(a *Array) { a.AddRecord(time.Unix(1<<31, 2003), 0) },
			"00000001 00000000 80000000 00000000 000007d3 00000000 00000000",
		},
		{
			"times out of range", pdu.MetricEvent,
			func(a *Array) {
				a.AddRecord(time.Unix(1<<31, 2003), 0)
				a.AddRecord(time.Time{}, 0)
			},
			"00000002 7fffffff 00000002 00000000 00000000 80000000 00000000 00000000 00000000",
		},
		{
			"missed", pdu.MetricEvent,
			func(a *Array) {
				a.AddMissed(when, 7)
				a.AddMissed(when, math.MaxUint64)
			},
			"00000002 00000001 00000002 80000000 00000007 00000001 00000002 80000000 7fffffff",
		},
		{
			"all types", pdu.MetricEvent,
			func(a *Array) {
				a.AddRecord(when, 0)
				a.AddInt32(id, -2)
				a.AddUint32(id, 3)
				a.AddInt64(id, -4)
				a.AddUint64(id, 5)
				a.AddFloat32(id, 1.5)
				a.AddFloat64(id, -2)
				a.AddString(id, "bingo!")
				a.AddString(id, "")
				a.AddParam(id, pdu.MetricString, []byte("abc"))
				a.AddParam(id, pdu.MetricAggregate, []byte{1, 2, 3, 4, 5})
			},
			"00000001 00000001 00000002 00000000 0000000a" +
				"07400086 00000008 fffffffe 07400086 01000008 00000003" +
				"07400086 0200000c ffffffff fffffffc 07400086 0300000c 00000000 00000005" +
				"07400086 04000008 3fc00000 07400086 0500000c c0000000 00000000" +
				"07400086 0600000a 62696e67 6f217e7e 07400086 06000004" +
				"07400086 06000007 6162637e 07400086 07000009 01020304 057e7e7e",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := NewArray(tt.typ)
			for range 2 { // the second time reuses memory
				a.Reset()
				tt.add(a)
				got, err := pdu.AppendEvents(nil, tt.typ, a.Records())
				if want := strings.ReplaceAll(tt.want, " ", ""); err != nil || hex.EncodeToString(got) != want {
					t.Errorf("%v\n got %x\nwant %s", err, got, want)
				}
				if a.size != len(got)-4 {
					t.Errorf("size is %d, want %d", a.size, len(got)-4)
				}
			}
		})
	}
}

// Records stay valid when the memory of an Array is reallocated.
func TestArrayGrows(t *testing.T) {
	a := NewArray(pdu.MetricEvent)
	for i := range 100 {
		a.AddRecord(time.Unix(int64(i), 0), 0)
		for j := range i % 10 {
			a.AddUint32(pdu.PMID(j), uint32(i))
		}
	}
	for i, r := range a.Records() {
		if len(r.Params) != i%10 || r.Sec != int64(i) {
			t.Fatalf("record %d: %+v", i, r)
		}
		for j, p := range r.Params {
			if p.PMID != pdu.PMID(j) || len(p.Value) != 4 || p.Value[3] != byte(i) {
				t.Fatalf("record %d: %+v", i, r)
			}
		}
	}
}
