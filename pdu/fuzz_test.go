package pdu

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"
)

// Each decoder has a fuzz target, which finds more than a target for Parse, because
// mutations do not change the type. The seeds are the captures of that type. For the
// checks see fuzzMessage.

func FuzzError(f *testing.F)         { fuzzType(f, TypeError) }
func FuzzResult(f *testing.F)        { fuzzType(f, TypeResult) }
func FuzzProfile(f *testing.F)       { fuzzType(f, TypeProfile) }
func FuzzFetch(f *testing.F)         { fuzzType(f, TypeFetch) }
func FuzzDescReq(f *testing.F)       { fuzzType(f, TypeDescReq) }
func FuzzDesc(f *testing.F)          { fuzzType(f, TypeDesc) }
func FuzzInstanceReq(f *testing.F)   { fuzzType(f, TypeInstanceReq) }
func FuzzInstance(f *testing.F)      { fuzzType(f, TypeInstance) }
func FuzzTextReq(f *testing.F)       { fuzzType(f, TypeTextReq) }
func FuzzText(f *testing.F)          { fuzzType(f, TypeText) }
func FuzzCreds(f *testing.F)         { fuzzType(f, TypeCreds) }
func FuzzPMNSIDs(f *testing.F)       { fuzzType(f, TypePMNSIDs) }
func FuzzPMNSNames(f *testing.F)     { fuzzType(f, TypePMNSNames) }
func FuzzPMNSChild(f *testing.F)     { fuzzType(f, TypePMNSChild) }
func FuzzPMNSTraverse(f *testing.F)  { fuzzType(f, TypePMNSTraverse) }
func FuzzAttr(f *testing.F)          { fuzzType(f, TypeAttr) }
func FuzzLabelReq(f *testing.F)      { fuzzType(f, TypeLabelReq) }
func FuzzLabels(f *testing.F)        { fuzzType(f, TypeLabel) }
func FuzzHighResFetch(f *testing.F)  { fuzzType(f, TypeHighResFetch) }
func FuzzHighResResult(f *testing.F) { fuzzType(f, TypeHighResResult) }
func FuzzDescIDs(f *testing.F)       { fuzzType(f, TypeDescIDs) }
func FuzzDescs(f *testing.F)         { fuzzType(f, TypeDescs) }

// FuzzParse also changes the types.
func FuzzParse(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.wire)
	}
	f.Fuzz(fuzzMessage)
}

// seeds adds the captures of a type and those in messages, without the first skip
// bytes.
func seeds(f *testing.F, typ Type, skip int) {
	for _, c := range captures(f) {
		if _, t, _ := Header(c.wire); t == typ {
			f.Add(c.wire[skip:])
		}
	}
	for _, tt := range messages {
		if tt.m.Type() == typ {
			f.Add(unhex(f, tt.wire)[skip:])
		}
	}
}

// fuzzType fuzzes the bodies of PDUs of one type with a correct header.
func fuzzType(f *testing.F, typ Type) {
	seeds(f, typ, HeaderLen)
	f.Fuzz(func(t *testing.T, body []byte) { fuzzMessage(t, frame(typ, body)) })
}

func frame(typ Type, body []byte) []byte {
	b := make([]byte, HeaderLen, HeaderLen+len(body))
	binary.BigEndian.PutUint32(b, uint32(HeaderLen+len(body)))
	binary.BigEndian.PutUint32(b[4:], uint32(typ))
	return append(b, body...)
}

// fuzzMessage checks that Parse does not panic, does not change its input, and
// allocates no more memory than is in proportion to b. It checks that a message that
// Parse accepts can be encoded and decoded again: the second encoding is equal to the
// first, and not longer than b.
func fuzzMessage(t *testing.T, b []byte) {
	in := bytes.Clone(b)
	from, m, err := Parse(b)
	if !bytes.Equal(b, in) {
		t.Fatal("Parse changed its input")
	}
	if err != nil {
		var pe *ParseError
		if !errors.As(err, &pe) || pe.Off < 0 || pe.Off > len(b) || m != nil {
			t.Fatalf("got %v, %v", m, err)
		}
		return
	}
	if n := size(reflect.ValueOf(m)); n > 256+16*len(b) {
		t.Fatalf("%d bytes decoded to %d", len(b), n)
	}
	b1, err := Append(nil, from, m)
	if err != nil {
		t.Fatalf("cannot encode what was parsed: %v\n in %x", err, b)
	}
	if len(b1) > max(len(b), 28) { // a PROFILE may lack its pad word
		t.Fatalf("%d bytes became %d", len(b), len(b1))
	}
	_, m2, err := Parse(b1)
	if err != nil {
		t.Fatalf("own encoding refused: %v\n in %x\nout %x", err, b, b1)
	}
	b2, err := Append(nil, from, m2)
	if err != nil || !bytes.Equal(b1, b2) {
		t.Fatalf("not a fixed point: %v\n in %x\n b1 %x\n b2 %x", err, b, b1, b2)
	}
	if !reflect.DeepEqual(m, m2) {
		t.Fatalf("not the same message:\n%+v\n%+v", m, m2)
	}
}

// size returns the memory of a message in bytes, without the memory that it aliases.
func size(v reflect.Value) int {
	n := int(v.Type().Size())
	switch v.Kind() {
	case reflect.Pointer:
		return n + size(v.Elem())
	case reflect.String:
		return n + v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			n += size(v.Field(i)) - int(v.Field(i).Type().Size())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return n
		}
		n += v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += size(v.Index(i)) - int(v.Type().Elem().Size())
		}
	}
	return n
}

// FuzzReader checks that PDUs do not depend on the pieces in which the stream is read,
// and that the Reader agrees with Frame.
func FuzzReader(f *testing.F) {
	var all []byte
	for i, c := range captures(f) {
		all = append(all, c.wire...)
		if i%20 == 0 {
			f.Add(all, uint16(0), uint8(i))
			all = nil
		}
	}
	_, long := stream(5000, 12, 70000, 16)
	f.Add(long, uint16(0), uint8(3))
	f.Add(long, uint16(5000), uint8(0))
	f.Fuzz(func(t *testing.T, in []byte, max uint16, cut uint8) {
		var want [][]byte
		end := error(io.EOF)
		for rest := in; len(rest) > 0; {
			n, err := Frame(rest, int(max))
			if n == 0 || n > len(rest) {
				if end = err; err == nil {
					end = io.ErrUnexpectedEOF
				}
				break
			}
			want = append(want, rest[:n])
			rest = rest[n:]
		}
		var src io.Reader = bytes.NewReader(in)
		switch cut % 4 {
		case 1:
			src = iotest.OneByteReader(src)
		case 2:
			src = iotest.HalfReader(src)
		case 3:
			src = &chopper{src, int(cut)}
		}
		if cut&4 != 0 {
			src = iotest.DataErrReader(src)
		}
		r := NewReader(src, int(max))
		for i, w := range want {
			if cut&8 != 0 {
				if err := r.Wait(); err != nil {
					t.Fatalf("Wait %d: %v", i, err)
				}
			}
			if b, err := r.Next(); err != nil || !bytes.Equal(b, w) {
				t.Fatalf("PDU %d: got %x, %v, want %x", i, b, err, w)
			}
			if len(r.buf) > 2*len(in)+minRead {
				t.Fatalf("%d bytes held for %d", len(r.buf), len(in))
			}
		}
		_, err := r.Next()
		var pe *ParseError
		if errors.As(end, &pe) {
			if !errors.Is(err, pe.Err) {
				t.Fatalf("at the end: got %v, want %v", err, end)
			}
		} else if err != end {
			t.Fatalf("at the end: got %v, want %v", err, end)
		}
	})
}

// A chopper reads pieces of n bytes at most, and n changes.
type chopper struct {
	r io.Reader
	n int
}

func (c *chopper) Read(b []byte) (int, error) {
	c.n = c.n*5/3%997 + 1
	return c.r.Read(b[:min(len(b), c.n)])
}

func FuzzEvents(f *testing.F) {
	for _, tt := range events {
		f.Add(tt.typ == MetricHighResEvent, unhex(f, tt.wire))
	}
	for _, c := range captures(f) {
		var sets []ValueSet
		switch _, m, _ := Parse(c.wire); m := m.(type) {
		case *Result:
			sets = m.Sets
		case *HighResResult:
			sets = m.Sets
		}
		for _, vs := range sets {
			for _, v := range vs.Values {
				if v.Type == MetricEvent || v.Type == MetricHighResEvent {
					f.Add(v.Type == MetricHighResEvent, v.Block)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, highRes bool, block []byte) {
		typ := MetricEvent
		if highRes {
			typ = MetricHighResEvent
		}
		recs, err := ParseEvents(typ, block)
		if err != nil {
			if recs != nil {
				t.Fatalf("got %v, %v", recs, err)
			}
			return
		}
		if n := size(reflect.ValueOf(recs)); n > 64+16*len(block) {
			t.Fatalf("%d bytes decoded to %d", len(block), n)
		}
		for _, r := range recs {
			for _, p := range r.Params {
				if p.Type == MetricString && indexControl(p.Value, textControls) >= 0 {
					return // it is escaped
				}
			}
		}
		b, err := AppendEvents(nil, typ, recs)
		if want := unpad(typ, block); err != nil || !bytes.Equal(b, want) {
			t.Fatalf("%v\n got %x\nwant %x", err, b, want)
		}
		again, err := ParseEvents(typ, b)
		if err != nil || !reflect.DeepEqual(again, recs) {
			t.Fatalf("%v:\n got %+v\nwant %+v", err, again, recs)
		}
	})
}

// The result of NewLabelSet is a JSON object, and can be encoded and decoded.
func FuzzNewLabelSet(f *testing.F) {
	f.Add("a", "1", "b", `"x"`, uint8(LabelItem))
	f.Add("b.c", `{"x":[1, 2]}`, "a_1", " null ", uint8(LabelContext|LabelOptional))
	f.Fuzz(func(t *testing.T, n1, v1, n2, v2 string, flags uint8) {
		s, err := NewLabelSet(1, LabelKind(flags), NamedLabel{Name: n1, Value: v1}, NamedLabel{Name: n2, Value: v2})
		if err != nil {
			return
		}
		var o map[string]json.RawMessage
		if err := json.Unmarshal(s.JSON, &o); err != nil || len(o) != 2 {
			t.Fatalf("%s: %v", s.JSON, err)
		}
		for _, l := range s.Labels {
			if want, ok := o[s.Name(l)]; !ok || !bytes.Equal(want, s.Value(l)) {
				t.Fatalf("%s: %s is %s", s.JSON, s.Name(l), s.Value(l))
			}
		}
		m := &Labels{Ident: 1, Kind: LabelItem, Sets: []LabelSet{s}}
		b, err := Append(nil, 0, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := Parse(b); err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%v:\n got %+v\nwant %+v", err, got, m)
		}
	})
}

// FuzzDump checks that any bytes can be dumped.
func FuzzDump(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.wire)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if d := AppendDump(nil, b); len(d) > 100+8*len(b) || bytes.Count(d, []byte("\n")) != 1+(len(b)+31)/32 {
			t.Fatalf("%d bytes: %s", len(b), d)
		}
	})
}
