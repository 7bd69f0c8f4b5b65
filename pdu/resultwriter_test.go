package pdu

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"
)

// write appends the value sets of the last message in messages.
func write(w *ResultWriter) {
	w.Fail(NewPMID(29, 0, 1), ErrnoPMID)
	w.Begin(NewPMID(29, 0, 2))
	w.Begin(NewPMID(29, 0, 3))
	w.Word(-1, 42)
	w.Begin(NewPMID(29, 0, 4))
	w.Block(0, MetricString, []byte("hi\n"))
}

func TestResultWriter(t *testing.T) {
	want := unhex(t, messages[len(messages)-1].wire)
	var w ResultWriter
	for range 2 { // a writer can be used again
		w.Reset([]byte("before"), 7) // and at any offset
		write(&w)
		got, err := w.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, append([]byte("before"), want...)) {
			t.Errorf("Finish:\n got %x\nwant %x", got[6:], want)
		}
	}
}

// A HighResResult has the same sets after a longer header.
func TestResultWriterHighRes(t *testing.T) {
	_, m, err := Parse(unhex(t, messages[len(messages)-1].wire))
	if err != nil {
		t.Fatal(err)
	}
	want, err := Append([]byte("before"), 7, &HighResResult{Sec: 1 << 40, Nsec: 5, Sets: m.(*Result).Sets})
	if err != nil {
		t.Fatal(err)
	}
	var w ResultWriter
	for range 2 {
		w.ResetHighRes([]byte("before"), 7)
		write(&w)
		w.SetHighResTime(1<<40, 5)
		if got, err := w.Finish(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("Finish: %v:\n got %x\nwant %x", err, got, want)
		}
	}
}

// Parse reads every kind of value as it was written.
func TestResultWriterValues(t *testing.T) {
	var w ResultWriter
	w.Reset(nil, 0)
	w.SetTime(StateNamesChange, 6)
	w.Fail(1, 0)
	w.Begin(2)
	w.Word(NoInst, 0xfffffffe)
	w.Begin(3)
	w.Uint64(0, Metric64, 1<<63)
	w.Float32(1, 1.5)
	w.Float64(2, -2)
	w.String(3, "")
	w.String(4, "abcd")
	w.Block(5, MetricAggregate, nil)
	w.Block(6, MetricUnknown, []byte{1})
	b, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := Parse(b)
	want := &Result{Sec: 16, Usec: 6, Sets: []ValueSet{
		{PMID: 1},
		{PMID: 2, Values: []Value{{Inst: -1, Word: 0xfffffffe}}},
		{PMID: 3, Format: FormatBlock, Values: []Value{
			{Inst: 0, Type: Metric64, Block: []byte{0x80, 0, 0, 0, 0, 0, 0, 0}},
			{Inst: 1, Type: MetricFloat, Block: []byte{0x3f, 0xc0, 0, 0}},
			{Inst: 2, Type: MetricDouble, Block: []byte{0xc0, 0, 0, 0, 0, 0, 0, 0}},
			{Inst: 3, Type: MetricString, Block: []byte{0}},
			{Inst: 4, Type: MetricString, Block: []byte("abcd\x00")},
			{Inst: 5, Type: MetricAggregate, Block: []byte{}},
			{Inst: 6, Type: MetricUnknown, Block: []byte{1}},
		}},
	}}
	if err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, %v\nwant %+v", m, err, want)
	}
}

func TestResultWriterRefuses(t *testing.T) {
	tests := []struct {
		name string
		do   func(*ResultWriter)
		err  error
	}{
		{"no set", func(w *ResultWriter) { w.Word(0, 1) }, ErrNoSet},
		{"value after an error", func(w *ResultWriter) { w.Fail(1, ErrnoPMID); w.Word(0, 1) }, ErrNoSet},
		{"mixed", func(w *ResultWriter) { w.Begin(1); w.Word(0, 1); w.Uint64(1, 3, 1) }, ErrFormat},
		{"long block", func(w *ResultWriter) { w.Begin(1); w.Block(0, 6, make([]byte, 1<<24)) }, ErrTooLong},
		{"block of type NOSUPPORT", func(w *ResultWriter) { w.Begin(1); w.Block(0, MetricNoSupport, nil) }, ErrField},
		{"more than the limit", func(w *ResultWriter) {
			w.Limit(100)
			defer w.Limit(0)
			for range 20 {
				w.Begin(1)
				w.Word(0, 1)
			}
		}, ErrTooLong},
		{"a last block beyond the limit", func(w *ResultWriter) {
			w.Limit(100)
			w.Begin(1)
			w.Block(0, MetricString, make([]byte, 100))
			w.Finish()
		}, ErrTooLong},
		{"errors beyond the limit", func(w *ResultWriter) {
			w.Limit(100)
			for range 20 {
				w.Fail(1, ErrnoPMID)
			}
			w.Finish()
		}, ErrTooLong},
		{"positive code", func(w *ResultWriter) { w.Fail(1, 1) }, ErrField},
		{"time of high resolution", func(w *ResultWriter) { w.SetHighResTime(1, 1) }, ErrUnknownType},
		{"time of low resolution", func(w *ResultWriter) { w.ResetHighRes([]byte("before"), 7); w.SetTime(1, 1) }, ErrUnknownType},
		{"the first mistake", func(w *ResultWriter) { w.Word(0, 1); w.Fail(1, 1) }, ErrNoSet},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w ResultWriter
			w.Reset([]byte("before"), 7)
			tt.do(&w)
			if err := w.Err(); err != nil && !errors.Is(err, tt.err) || err == nil && tt.err != nil {
				t.Errorf("Err: %v, want %v", err, tt.err)
			}
			if b, err := w.Finish(); !errors.Is(err, tt.err) || string(b) != "before" {
				t.Errorf("got %q, %v, want %v", b, err, tt.err)
			}
		})
	}
}

func TestResultWriterAllocs(t *testing.T) {
	var w ResultWriter
	var b []byte
	fill := func() {
		w.Reset(b[:0], 7)
		for i := range int32(100) {
			w.Begin(NewPMID(29, 0, int(i)))
			w.Uint64(0, 3, uint64(i))
			w.String(1, "one")
		}
		b, _ = w.Finish()
	}
	if n := testing.AllocsPerRun(10, fill); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A large result is written with little more memory than it has.
func TestResultWriterLarge(t *testing.T) {
	want := &Result{Sets: []ValueSet{{PMID: 1, Format: FormatBlock}, {PMID: 2}, {PMID: 3, Format: FormatBlock}}}
	text := bytes.Repeat([]byte("text"), 100_000)
	for i := range 20_000 {
		n := i % 500
		if i%5000 == 0 {
			n = len(text) - 1
		}
		want.Sets[0].Values = append(want.Sets[0].Values, Value{Inst: int32(i), Type: MetricString, Block: append(text[:n:n], 0)})
		want.Sets[1].Values = append(want.Sets[1].Values, Value{Inst: int32(i), Word: uint32(i)})
		want.Sets[2].Values = append(want.Sets[2].Values, Value{Inst: int32(i), Type: MetricU64, Block: []byte{0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)}})
	}
	wantPDU, err := Append(nil, 0, want)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var w ResultWriter
	w.Reset(nil, 0)
	w.Begin(1)
	for _, v := range want.Sets[0].Values {
		w.Block(v.Inst, v.Type, v.Block)
	}
	w.Begin(2)
	for _, v := range want.Sets[1].Values {
		w.Word(v.Inst, v.Word)
	}
	w.Begin(3)
	for i, v := range want.Sets[2].Values {
		w.Uint64(v.Inst, v.Type, uint64(i))
	}
	got, err := w.Finish()
	runtime.ReadMemStats(&after)
	if err != nil || !bytes.Equal(got, wantPDU) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(wantPDU), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*uint64(len(got)) {
		t.Errorf("%d bytes of memory for %d", n, len(got))
	}
	// The next one has nothing of it.
	w.Reset(got[:0], 0)
	w.Begin(1)
	w.String(7, "x")
	if b, err := w.Finish(); err != nil || len(b) != resultHeaderLen+setLen+valueLen+8 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
