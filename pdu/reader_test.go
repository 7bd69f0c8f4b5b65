package pdu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestFrame(t *testing.T) {
	tests := []struct {
		name string
		wire string
		max  int
		n    int
		err  error
	}{
		{"nothing", "", 0, 0, nil},
		{"half a header", "00000010 00007000 000000", 0, 0, nil},
		{"a header", "00000010 00007000 00000000", 0, 16, nil},
		{"only a header", "0000000c 00007000 00000000", 0, 12, nil},
		{"more than a PDU", "00000010 00007000 00000000 00000000 00000000", 0, 16, nil},
		{"unknown type", "00000010 00001234 00000000", 0, 16, nil},
		{"at the limit", "00010000 00007000 00000000", 65536, 65536, nil},
		{"above the limit", "00010001 00007000 00000000", 65536, 0, ErrTooLong},
		{"no limit", "7ffffbff 00007000 00000000", 0, 0x7ffffbff, nil},
		{"above what libpcp takes", "7ffffc00 00007000 00000000", 0, 0, ErrTooLong},
		{"length 11", "0000000b 00007000 00000000", 0, 0, ErrLength},
		{"length 0", "00000000 00007000 00000000", 0, 0, ErrLength},
		{"negative length", "80000010 00007000 00000000", 0, 0, ErrLength},
		{"type 0", "00000010 00000000 00000000", 0, 0, ErrUnknownType},
		{"negative type", "00000010 ffff7000 00000000", 0, 0, ErrUnknownType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := Frame(unhex(t, tt.wire), tt.max)
			if n != tt.n || !errors.Is(err, tt.err) {
				t.Errorf("got %d, %v, want %d, %v", n, err, tt.n, tt.err)
			}
			var pe *ParseError
			if err != nil && !errors.As(err, &pe) {
				t.Errorf("%T is no *ParseError", err)
			}
		})
	}
}

// stream returns PDUs of the given lengths, and all of them in one slice.
func stream(lens ...int) (pdus [][]byte, all []byte) {
	for i, n := range lens {
		b := bytes.Repeat([]byte{byte(i)}, n)
		binary.BigEndian.PutUint32(b, uint32(n))
		binary.BigEndian.PutUint32(b[4:], uint32(TypeResult))
		pdus = append(pdus, b)
		all = append(all, b...)
	}
	return pdus, all
}

func TestReader(t *testing.T) {
	readers := []struct {
		name string
		wrap func(io.Reader) io.Reader
	}{
		{"as it is", func(r io.Reader) io.Reader { return r }},
		{"one byte", iotest.OneByteReader},
		{"half", iotest.HalfReader},
		{"data with the error", iotest.DataErrReader},
	}
	pdus, all := stream(12, 13, 4096, 4097, 16, 70000, 200000, 12, 12, 65536, 16)
	for _, tt := range readers {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader(tt.wrap(bytes.NewReader(all)), 0)
			for i, want := range pdus {
				if err := r.Wait(); err != nil {
					t.Fatal(err)
				}
				if r.Buffered() == 0 {
					t.Error("nothing buffered after Wait")
				}
				got, err := r.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("PDU %d: got %d bytes, want %d", i, len(got), len(want))
				}
				if cap(got) != len(got) {
					t.Errorf("PDU %d could be appended to", i)
				}
			}
			if err := r.Wait(); err != io.EOF {
				t.Errorf("Wait at the end: got %v, want io.EOF", err)
			}
			if len(r.buf) > keepRead {
				t.Errorf("%d bytes held at the end", len(r.buf))
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("at the end: got %v, want io.EOF", err)
			}
		})
	}
}

func TestReaderRefuses(t *testing.T) {
	pdus, _ := stream(20)
	tests := []struct {
		name string
		in   []byte
		err  error
	}{
		{"nothing", nil, io.EOF},
		{"half a header", pdus[0][:6], io.ErrUnexpectedEOF},
		{"header only", pdus[0][:12], io.ErrUnexpectedEOF},
		{"half a body", pdus[0][:19], io.ErrUnexpectedEOF},
		{"too long", unhex(t, "00010001 00007003 00000000"), ErrTooLong},
		{"too short", unhex(t, "0000000b 00007003 00000000"), ErrLength},
		{"no type", unhex(t, "00000010 00000000 00000000"), ErrUnknownType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewReader(bytes.NewReader(tt.in), 1<<16).Next(); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
		})
	}
	failure := errors.New("failure")
	r := NewReader(io.MultiReader(bytes.NewReader(pdus[0][:15]), iotest.ErrReader(failure)), 0)
	if _, err := r.Next(); err != failure {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// A claimed length must not cost memory before the bytes arrive.
func TestReaderClaim(t *testing.T) {
	wire := append(unhex(t, "70000000 00007001 00000000"), make([]byte, 100000)...)
	r := NewReader(bytes.NewReader(wire), 0)
	if _, err := r.Next(); err != io.ErrUnexpectedEOF || len(r.buf) > 2*len(wire) {
		t.Errorf("got %v with %d bytes held, want io.ErrUnexpectedEOF", err, len(r.buf))
	}
}

func TestReaderAllocs(t *testing.T) {
	_, all := stream(16, 100, 60000, 16)
	in := bytes.NewReader(nil)
	r := NewReader(in, 0)
	n := testing.AllocsPerRun(10, func() {
		in.Reset(all)
		for {
			if _, err := r.Next(); err == io.EOF {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
