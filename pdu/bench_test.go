package pdu

import "testing"

// big is a Result of an agent with many instances: 200 metrics with 10 instances each,
// half of them with words and half with 64-bit values.
func big() (wire []byte, ids []PMID) {
	var w ResultWriter
	w.Reset(nil, 0)
	for i := range 200 {
		id := NewPMID(60, i/100, i)
		ids = append(ids, id)
		w.Begin(id)
		for inst := range int32(10) {
			if i%2 == 0 {
				w.Word(inst, uint32(i))
			} else {
				w.Uint64(inst, MetricU64, uint64(i))
			}
		}
	}
	wire, err := w.Finish()
	if err != nil {
		panic(err)
	}
	return wire, ids
}

// And by decoding and encoding.
func BenchmarkParseAppendResult(b *testing.B) {
	wire, _ := big()
	var dst []byte
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		_, m, err := Parse(wire)
		if err != nil {
			b.Fatal(err)
		}
		if dst, err = Append(dst[:0], 0, &HighResResult{Sets: m.(*Result).Sets}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseIntoFetch(b *testing.B) {
	_, ids := big()
	wire, err := Append(nil, 0, &Fetch{PMIDs: ids})
	if err != nil {
		b.Fatal(err)
	}
	var m Fetch
	b.SetBytes(int64(len(wire)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseInto(wire, &m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendError(b *testing.B) {
	m := &Error{Code: ErrnoPMID}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = Append(dst[:0], 0, m)
	}
}

func BenchmarkResultWriter(b *testing.B) {
	var w ResultWriter
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(dst[:0], 7)
		for i := range 100 {
			w.Begin(NewPMID(29, 0, i))
			for inst := range int32(10) {
				w.Uint64(inst, MetricU64, uint64(i))
			}
		}
		dst, _ = w.Finish()
	}
}
