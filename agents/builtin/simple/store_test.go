package simple

import (
	"encoding/binary"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A storeValue is a value to be stored for an instance.
type storeValue struct {
	inst int32
	n    int32
}

func set(id pdu.PMID, values ...storeValue) pdu.ValueSet {
	s := pdu.ValueSet{PMID: id}
	for _, v := range values {
		s.Values = append(s.Values, pdu.Value{Inst: v.inst, Word: uint32(v.n)})
	}
	return s
}

// block returns a value set with one value of a type that is encoded as a block.
func block(id pdu.PMID, inst int32, typ pdu.MetricType, b []byte) pdu.ValueSet {
	return pdu.ValueSet{PMID: id, Format: pdu.FormatBlock, Values: []pdu.Value{{Inst: inst, Type: typ, Block: b}}}
}

func i64(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// The values after a store are read by a fetch, which adds 1 to each.
func TestStore(t *testing.T) {
	const none = pdu.NoInst
	const start1, startColor = "-1=1", "0=1 1=101 2=201"
	other := pdu.NewPMID(Domain, 0, 2)
	strange := pdu.NewPMID(Domain, 3, 0)
	tests := []struct {
		name     string
		sets     []pdu.ValueSet
		want     error
		numfetch string
		color    string
	}{
		{"numfetch", []pdu.ValueSet{set(numfetch, storeValue{none, 7})}, nil, "-1=8", startColor},
		{"the largest numfetch", []pdu.ValueSet{set(numfetch, storeValue{none, 1<<31 - 1})}, nil, "-1=2147483648", startColor},
		{"a numfetch over an int", []pdu.ValueSet{set(numfetch, storeValue{none, -1})}, pdu.ErrnoBadStore, start1, startColor},
		{"only the first numfetch counts", []pdu.ValueSet{set(numfetch, storeValue{none, 3}, storeValue{none, 4})}, nil, "-1=4", startColor},
		{"numfetch without value", []pdu.ValueSet{set(numfetch)}, pdu.ErrnoBadStore, start1, startColor},
		{"all colors", []pdu.ValueSet{set(color, storeValue{0, 10}, storeValue{1, 20}, storeValue{2, 255})}, nil, start1, "0=11 1=21 2=0"},
		{"one color", []pdu.ValueSet{set(color, storeValue{1, 0})}, nil, start1, "0=1 1=1 2=201"},
		{"a negative color, then others", []pdu.ValueSet{set(color, storeValue{0, -5}, storeValue{1, 7})}, pdu.ErrnoBadStore, start1, startColor},
		{"a negative color is 0", []pdu.ValueSet{set(color, storeValue{2, -1 << 31})}, pdu.ErrnoBadStore, start1, "0=1 1=101 2=1"},
		{"a color over 255 is 255", []pdu.ValueSet{set(color, storeValue{1, 256}, storeValue{0, 9})}, pdu.ErrnoBadStore, start1, "0=1 1=0 2=201"},
		{"no such color", []pdu.ValueSet{set(color, storeValue{0, 9}, storeValue{3, 9}, storeValue{1, 9})}, pdu.ErrnoInst, start1, "0=10 1=101 2=201"},
		{"no such color and too much", []pdu.ValueSet{set(color, storeValue{none, 999})}, pdu.ErrnoInst, start1, startColor},
		{"no color", []pdu.ValueSet{set(color)}, nil, start1, startColor},
		{"time", []pdu.ValueSet{set(user, storeValue{none, 1})}, pdu.ErrnoPermission, start1, startColor},
		{"now", []pdu.ValueSet{set(now, storeValue{0, 1})}, pdu.ErrnoPermission, start1, startColor},
		{"no such item", []pdu.ValueSet{set(other, storeValue{none, 1})}, pdu.ErrnoPMID, start1, startColor},
		{"no such cluster", []pdu.ValueSet{set(strange, storeValue{none, 1})}, pdu.ErrnoPMID, start1, startColor},

		{"both", []pdu.ValueSet{set(numfetch, storeValue{none, 7}), set(color, storeValue{0, 7})}, nil, "-1=8", "0=8 1=101 2=201"},
		{"no color after an error", []pdu.ValueSet{set(numfetch, storeValue{none, -7}), set(color, storeValue{0, 7})}, pdu.ErrnoBadStore, start1, startColor},
		{"numfetch after an error", []pdu.ValueSet{set(color, storeValue{7, 7}), set(numfetch, storeValue{none, 7})}, pdu.ErrnoInst, "-1=8", startColor},
		{"numfetch after an unknown item", []pdu.ValueSet{set(other, storeValue{none, 1}), set(numfetch, storeValue{none, 7})}, pdu.ErrnoPMID, "-1=8", startColor},
		{"the last error counts", []pdu.ValueSet{set(color, storeValue{7, 7}), set(numfetch, storeValue{none, -7})}, pdu.ErrnoBadStore, start1, startColor},
		{"nothing after another cluster", []pdu.ValueSet{set(sys, storeValue{none, 1}), set(numfetch, storeValue{none, 7})}, pdu.ErrnoPermission, start1, startColor},
		{"nothing after an unknown cluster", []pdu.ValueSet{set(strange, storeValue{none, 1}), set(numfetch, storeValue{none, 7})}, pdu.ErrnoPMID, start1, startColor},
		{"numfetch before another cluster", []pdu.ValueSet{set(numfetch, storeValue{none, 7}), set(now, storeValue{0, 1})}, pdu.ErrnoPermission, "-1=8", startColor},

		{"another type that fits", []pdu.ValueSet{block(numfetch, none, pdu.Metric64, i64(7))}, nil, "-1=8", startColor},
		{"another type that does not", []pdu.ValueSet{block(numfetch, none, pdu.Metric64, i64(-1<<40))}, pdu.ErrnoBadStore, start1, startColor},
		{"a large color of another type", []pdu.ValueSet{block(color, 0, pdu.MetricU64, i64(1<<40))}, pdu.ErrnoBadStore, start1, "0=0 1=101 2=201"},
		{"text", []pdu.ValueSet{block(color, 0, pdu.MetricString, []byte("7\x00"))}, pdu.ErrnoConv, start1, startColor},
		{"text for numfetch", []pdu.ValueSet{block(numfetch, none, pdu.MetricString, []byte("7\x00"))}, pdu.ErrnoConv, start1, startColor},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, "sec\n")
			if err := r.do(&pdu.Result{Sets: tt.sets}, new(pdu.Error)); err != tt.want {
				t.Errorf("store: %v, want %v", err, tt.want)
			}
			s := r.fetch(numfetch, color)
			if got := show(s[0]); got != tt.numfetch {
				t.Errorf("simple.numfetch: %s, want %s", got, tt.numfetch)
			}
			if got := show(s[1]); got != tt.color {
				t.Errorf("simple.color: %s, want %s", got, tt.color)
			}
		})
	}
}
