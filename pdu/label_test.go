package pdu

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// NewLabelSet makes the same bytes as in the captures.
func TestNewLabelSet(t *testing.T) {
	n := 0
	for _, c := range captures(t) {
		from, m, err := Parse(c.wire)
		ls, ok := m.(*Labels)
		if err != nil || !ok {
			continue
		}
		made := *ls
		made.Sets = nil
		for _, s := range ls.Sets {
			var labels []NamedLabel
			for _, l := range s.Labels {
				labels = append([]NamedLabel{{
					Name: s.Name(l), Value: string(s.Value(l)), Flags: LabelKind(l.Flags) &^ ls.Kind,
				}}, labels...)
			}
			set, err := NewLabelSet(s.Inst, ls.Kind, labels...)
			if err != nil {
				t.Fatalf("%s: %v", c.file, err)
			}
			made.Sets = append(made.Sets, set)
			n++
		}
		if got, err := Append(nil, from, &made); err != nil || !bytes.Equal(got, c.wire) {
			t.Errorf("%s: %v\n got %x\nwant %x", c.file, err, got, c.wire)
		}
	}
	if n < 10 {
		t.Errorf("%d label sets among the captures", n)
	}
}

func TestNewLabelSetValues(t *testing.T) {
	s, err := NewLabelSet(NoInst, LabelContext,
		NamedLabel{Name: "b", Value: ` { "x" : [ 1, 2 ] } `},
		NamedLabel{Name: "a.b", Value: "null", Flags: LabelCompound | LabelOptional},
	)
	if want := `{"a.b":null,"b":{"x":[1,2]}}`; err != nil || string(s.JSON) != want {
		t.Fatalf("got %s, %v, want %s", s.JSON, err, want)
	}
	for i, want := range []Label{
		{Name: 2, NameLen: 3, Flags: 0xc1, Value: 7, ValueLen: 4},
		{Name: 13, NameLen: 1, Flags: 0x01, Value: 16, ValueLen: 11},
	} {
		if s.Labels[i] != want {
			t.Errorf("label %d: got %+v, want %+v", i, s.Labels[i], want)
		}
	}
}

func TestNewLabelSetNames(t *testing.T) {
	for _, name := range []string{"a", "1a", "_a", "__", "0", ".a", "a.", "a..b", strings.Repeat("a", 255)} {
		if s, err := NewLabelSet(NoInst, LabelContext, NamedLabel{Name: name, Value: "1"}); err != nil || string(s.JSON) != `{"`+name+`":1}` {
			t.Errorf("%s: %s, %v", name, s.JSON, err)
		}
	}
}

func TestNewLabelSetRefuses(t *testing.T) {
	one := func(name, value string) []NamedLabel { return []NamedLabel{{Name: name, Value: value}} }
	tests := []struct {
		name   string
		labels []NamedLabel
		err    error
	}{
		{"no name", one("", "1"), ErrField},
		{"quote in a name", one(`a"`, "1"), ErrField},
		{"dash in a name", one("a-b", "1"), ErrField},
		{"letter beyond ASCII", one("é", "1"), ErrField},
		{"long name", one(strings.Repeat("a", 256), "1"), ErrField},
		{"no value", one("a", ""), nil},
		{"word", one("a", "b"), nil},
		{"two values", one("a", "1,2"), nil},
		{"end of the object", one("a", `1}`), nil},
		{"twice", append(one("a", "1"), one("a", "2")...), ErrField},
		{"255 labels", make([]NamedLabel, 255), ErrCount},
		{"long value", one("a", `"`+strings.Repeat("x", 65527)+`"`), ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := NewLabelSet(NoInst, LabelItem, tt.labels...)
			if err == nil || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("got %d bytes, %v, want %v", len(s.JSON), err, tt.err)
			}
		})
	}
	s, err := NewLabelSet(NoInst, LabelItem, one("a", `"`+strings.Repeat("x", 65526)+`"`)...)
	if err == nil {
		_, err = Append(nil, 0, &Labels{Sets: []LabelSet{s}})
	}
	if err != nil || len(s.JSON) != 65534 {
		t.Errorf("%d bytes: %v", len(s.JSON), err)
	}
}

func TestLabelsRefuses(t *testing.T) {
	// One set with one label, whose JSON is {"a":1}.
	const head = "00007013 00000000 3f400000 00000004 00000000 00000001 "
	tests := []struct {
		name string
		wire string
		err  error
		off  int
	}{
		{"fine", "0000003b " + head + "ffffffff 00000001 00000034 00000007 00020104 00050001 7b2261223a317d", nil, 0},
		{"sets", "0000001c 00007013 00000000 3f400000 00000004 00000000 00000001", ErrCount, 28},
		{"negative sets", "0000001c 00007013 00000000 3f400000 00000004 00000000 ffffffff", ErrCount, 28},
		{"labels", "0000002c " + head + "ffffffff 00000001 0000002c 00000000", ErrCount, 44},
		{"255 labels", "00000824 " + head + "ffffffff 000000ff 00000824 00000000" + strings.Repeat("00", 8*255), ErrCount, 44},
		{"name", "0000003b " + head + "ffffffff 00000001 00000034 00000007 00070104 00050001 7b2261223a317d", ErrOffset, 59},
		{"value", "0000003b " + head + "ffffffff 00000001 00000034 00000007 00020104 00050003 7b2261223a317d", ErrOffset, 59},
		{"JSON among the sets", "0000003b " + head + "ffffffff 00000001 0000001c 00000007 00020104 00050001 7b2261223a317d", ErrOffset, 52},
		{"JSON further on", "0000003b " + head + "ffffffff 00000001 00000035 00000006 00020104 00050001 7b2261223a317d", ErrOffset, 52},
		{"JSON past the end", "0000003b " + head + "ffffffff 00000001 00000034 00000008 00020104 00050001 7b2261223a317d", ErrShort, 52},
		{"JSON of negative length", "0000003b " + head + "ffffffff 00000001 00000034 ffffffff 00020104 00050001 7b2261223a317d", ErrCount, 52},
		{"JSON of 65535 bytes", "0001002b " + head + "ffffffff 00000000 0000002c 0000ffff " + strings.Repeat("20", 65535), ErrCount, 44},
		{"offset without JSON", "0000002c " + head + "ffffffff 00000000 0000002d 00000000", ErrOffset, 44},
		{"negative offset", "0000002c " + head + "ffffffff 00000000 ffffffff 00000000", ErrOffset, 44},
		{"offset 0 without JSON", "0000002c " + head + "ffffffff 00000000 00000000 00000000", nil, 0},
		{"error", "0000002c " + head + "ffffffff ffffcfbb 0000002c 00000000", nil, 0},
		{"tail of 3", "0000002f " + head + "ffffffff 00000000 0000002c 00000000 7e7e7e", nil, 0},
		{"tail of 4", "00000030 " + head + "ffffffff 00000000 0000002c 00000000 7e7e7e7e", ErrLength, 44},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Parse(unhex(t, tt.wire))
			if tt.err == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var pe *ParseError
			if !errors.Is(err, tt.err) || !errors.As(err, &pe) || pe.Off != tt.off {
				t.Errorf("got %v, want %v at byte %d", err, tt.err, tt.off)
			}
		})
	}
}

// A set without labels has the offset of its JSON, also if it is the last set.
func TestLabelsOffsets(t *testing.T) {
	one, err := NewLabelSet(1, LabelInstances, NamedLabel{Name: "a", Value: "1"})
	if err != nil {
		t.Fatal(err)
	}
	want := unhex(t, "00000063 00007013 00000000 3f400000 00000020 00000000 00000004 "+
		"00000000 00000000 00000064 00000000 "+
		"00000001 00000001 00000064 00000007 00020120 00050001 "+
		"00000002 ffffcfbb 0000006b 00000000 "+
		"00000003 00000000 0000006b 00000000 "+
		"7b2261223a317d")
	want[3] = byte(len(want))
	m := &Labels{Ident: 0x3f400000, Kind: LabelInstances, Sets: []LabelSet{
		{Inst: 0}, one, {Inst: 2, Err: ErrnoName}, {Inst: 3},
	}}
	if got, err := Append(nil, 0, m); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %x\nwant %x", err, got, want)
	}
}

func TestLabelKindString(t *testing.T) {
	for k, want := range map[LabelKind]string{
		LabelContext: "context", LabelInstances | LabelOptional: "instances", 3: "unknown", 0: "unknown",
	} {
		if got := k.String(); got != want {
			t.Errorf("%#x: got %q, want %q", int32(k), got, want)
		}
	}
}
