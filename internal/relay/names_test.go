package relay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// stretch returns names in the wire form of a PMNS_NAMES PDU.
func stretch(t *testing.T, names ...string) (wire string, n, size int) {
	b, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: names})
	if err != nil {
		t.Fatal(err)
	}
	return string(b[namesHeaderLen:]), len(names), len(strings.Join(names, ""))
}

func TestNamesWriterWritesWhatAppendDoes(t *testing.T) {
	var w NamesWriter
	for _, test := range []struct {
		what string
		list [][]string // a list of one is written by Name
	}{
		{"nothing", nil},
		{"a name", [][]string{{"a"}}},
		{"a stretch", [][]string{{"a.b", "a.bc", "a.bcd", "a.bcde"}}},
		{"no names in a stretch", [][]string{{}, {"x"}}},
		{"names and stretches", [][]string{{"x"}, {"a", "b"}, {"y"}, {"z"}, {"a", "c", "d"}, {"a", "c"}, {"end"}}},
	} {
		t.Run(test.what, func(t *testing.T) {
			w.Reset(w.Own()[:0:cap(w.Own())])
			for _, names := range test.list {
				if len(names) == 1 {
					w.Name(names[0])
				} else {
					w.Stretch(stretch(t, names...))
				}
			}
			all := slices.Concat(test.list...)
			if w.Names() != len(all) {
				t.Errorf("%d names, want %d", w.Names(), len(all))
			}
			pieces, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			want, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: all})
			if err != nil {
				t.Fatal(err)
			}
			if got := bytes.Join(pieces, nil); !bytes.Equal(got, want) {
				t.Errorf("got\n%x\nwant\n%x", got, want)
			}
		})
	}
}

// The head is right although the buffer after it has been moved in memory.
func TestNamesWriterGrows(t *testing.T) {
	var w NamesWriter
	var all []string
	long := slices.Repeat([]string{"s.t"}, longStretch/8)
	w.Reset(nil)
	for i := range 1000 {
		name := fmt.Sprint("name.", i)
		all = append(all, name)
		w.Name(name)
		if i%300 == 0 {
			all = append(all, long...)
			w.Stretch(stretch(t, long...))
		}
	}
	pieces, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if len(pieces) != 9 { // names and a long stretch, four times, and names
		t.Errorf("%d pieces", len(pieces))
	}
	_, m, err := pdu.Parse(bytes.Join(pieces, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(*pdu.PMNSNames).Names; !slices.Equal(got, all) {
		t.Errorf("got %q", got)
	}
}

func TestNamesWriterRefusesWhatCannotBeParsed(t *testing.T) {
	var w NamesWriter
	w.Reset(nil)
	w.Name("")
	if _, err := w.Finish(); !errors.Is(err, pdu.ErrCount) {
		t.Errorf("an empty name: %v", err)
	}
	w.Reset(nil)
	w.Stretch("\x00\x00\x00\x01a~~~", 1, pduformat.MaxLen)
	if _, err := w.Finish(); !errors.Is(err, pdu.ErrTooLong) {
		t.Errorf("too long: %v", err)
	}
}

func TestNamesWriterLimit(t *testing.T) {
	var w NamesWriter
	w.Limit(namesHeaderLen + 2*8)
	for range 2 { // also after the next Reset
		w.Reset(nil)
		w.Name("ab")
		w.Name("cd")
		if _, err := w.Finish(); err != nil || w.Full() {
			t.Errorf("as long as the limit: %v", err)
		}
		w.Name("ef")
		if _, err := w.Finish(); !errors.Is(err, pdu.ErrTooLong) || !w.Full() {
			t.Errorf("beyond the limit: %v", err)
		}
	}
}
