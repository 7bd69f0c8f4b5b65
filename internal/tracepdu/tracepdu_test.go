package tracepdu

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The bytes are those of pmdatrace and libpcp_trace.
func TestGolden(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		got        []byte
	}{
		{"greeting", "00000010 00007050 00001234 00000001", AppendACK(nil, 0x1234, Version)},
		{"transaction", "0000001c 00007051 00001234 01030180 3fe0000000000000 7431007e",
			AppendData(nil, 0x1234, Data{Transaction, true, 0.5, "t1"})},
		{"point", "0000001c 00007051 00001234 01040200 bff0000000000000 61626300",
			AppendData(nil, 0x1234, Data{Point, false, -1, "abc"})},
		{"empty tag", "0000001c 00007051 00001234 01010380 0000000000000000 007e7e7e",
			AppendData(nil, 0x1234, Data{Observation, true, 0, ""})},
		{"refusal", "00000010 00007050 00001234 ffffd116", AppendACK(nil, 0x1234, ErrPermission)},
	} {
		if want := unhex(t, tt.want); !bytes.Equal(tt.got, want) {
			t.Errorf("%s: got %x, want %x", tt.name, tt.got, want)
		}
	}
	d, tag, err := ParseData(unhex(t, "0000001c 00007051 00001234 01030180 3fe0000000000000 7431007e"))
	if want := (Data{Kind: Transaction, Sync: true, Value: 0.5}); err != nil || d != want || string(tag) != "t1" {
		t.Errorf("got %v, %q, %v", d, tag, err)
	}
	if n, err := ParseACK(unhex(t, "00000010 00007050 00001234 ffffd115")); n != ErrConnLimit || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// data returns DATA with a tag of tagLen bytes, and a length that fits or is wrong by extra.
func data(version, tagLen, kind byte, tag string, extra int) []byte {
	b := AppendData(nil, 1, Data{Kind: Counter, Tag: strings.Repeat("x", len(tag))})
	copy(b[dataLen:], tag)
	b[12], b[13], b[14] = version, tagLen, kind
	for range extra {
		b = append(b, 0)
	}
	b = b[:len(b)+min(extra, 0)]
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	return b
}

func TestParseData(t *testing.T) {
	long := strings.Repeat("x", MaxTag)
	for _, tt := range []struct {
		name string
		in   []byte
		tag  string
		err  string
	}{
		{"a NUL in the tag", data(1, 8, 4, "abc\x00def", 0), "abc", ""},
		{"no NUL", data(1, 3, 4, "abc", 0), "abc", ""},
		{"not UTF-8", data(1, 3, 4, "\xff\n", 0), "\xff\n", ""},
		{"longest", data(1, MaxTag+1, 4, long, 0), long, ""},
		{"more bytes than needed", data(1, 4, 4, "abc", 32), "abc", ""},
		{"version", data(2, 4, 4, "abc", 0), "", "version 2"},
		{"type 0", data(1, 4, 0, "abc", 0), "", "unknown tag type 0"},
		{"type 5", data(1, 4, 5, "abc", 0), "", "unknown tag type 5"},
		{"no tag", data(1, 0, 4, "abc", 0), "", "tag of 0 bytes"},
		{"too long", data(1, MaxTag+2, 4, long+"x", 0), "", "tag of 126 bytes"},
		{"tag beyond the PDU", data(1, 9, 4, "abc", 0), "", "tag of 9 bytes in a PDU of 28"},
		{"an ACK", AppendACK(nil, 1, 1), "", "unexpected PDU of type 0x7050"},
		{"short", data(1, 4, 4, "abc", -8), "", "DATA has only 20 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, tag, err := ParseData(tt.in)
			if tt.err == "" && (err != nil || string(tag) != tt.tag) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%s: got %q, %v", tt.name, tag, err)
			}
		})
	}
	for n, ok := range map[uint32]bool{0: false, 15: false, 16: true, 272: true, 273: false, 1 << 31: false, math.MaxUint32: false} {
		got, err := Length(binary.BigEndian.AppendUint32(nil, n))
		if ok != (err == nil) || ok && got != int(n) {
			t.Errorf("%d: got %d, %v", n, got, err)
		}
	}
	if _, err := ParseACK(data(1, 4, 4, "abc", 0)); err == nil {
		t.Error("DATA is an ACK")
	}
}

// What is parsed is the same after it has been made again.
func FuzzParseData(f *testing.F) {
	f.Add(unhex(f, "0000001c 00007051 00001234 01030180 3fe0000000000000 7431007e"))
	f.Add(AppendACK(nil, 1, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderLen {
			return
		}
		n, err := Length(b)
		if err != nil || n > len(b) {
			return
		}
		ParseACK(b[:n])
		d, tag, err := ParseData(b[:n])
		if err != nil {
			return
		}
		if len(tag) > MaxTag+1 {
			t.Fatalf("a tag of %d bytes", len(tag))
		}
		if len(tag) > MaxTag {
			return // without a NUL
		}
		d.Tag = string(tag)
		made := AppendData(nil, 1, d)
		back, tag2, err := ParseData(made)
		back.Tag = d.Tag
		if math.Float64bits(back.Value) != math.Float64bits(d.Value) {
			t.Fatal("the value differs")
		}
		if back.Value, d.Value = 0, 0; err != nil || back != d || !bytes.Equal(tag, tag2) {
			t.Fatalf("%v, %q became %v, %q, %v", d, tag, back, tag2, err)
		}
	})
}
