package sysfile

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for _, tt := range []struct{ text, word, rest string }{
		{"", "", ""}, {" \t ", "", ""}, {"a", "a", ""}, {"\ta  b c", "a", "  b c"}, {"a\r\n", "a\r\n", ""},
	} {
		if word, rest := Field([]byte(tt.text)); string(word) != tt.word || string(rest) != tt.rest {
			t.Errorf("Field %q: %q, %q", tt.text, word, rest)
		}
	}
	for _, tt := range []struct{ text, line, rest string }{
		{"", "", ""}, {"\n", "", ""}, {"a", "a", ""}, {"a\n\nb\n", "a", "\nb\n"},
	} {
		if line, rest := CutLine([]byte(tt.text)); string(line) != tt.line || string(rest) != tt.rest {
			t.Errorf("CutLine %q: %q, %q", tt.text, line, rest)
		}
	}
}

func TestRecord(t *testing.T) {
	var r Record
	r.Parse([]byte("1 x 3 -4 18446744073709551615"))
	for _, tt := range []struct {
		indices  []int
		optional int
		sum      uint64
		ok       bool
	}{
		{[]int{0, 2}, 9, 4, true},
		{[]int{0, 1}, 0, 0, false},
		{[]int{3}, 9, 0, false},
		{[]int{4}, 9, math.MaxUint64, true},
		{[]int{0, 5}, 5, 1, true},
		{[]int{0, 5}, 6, 0, false},
	} {
		if n, ok := r.Sum(tt.indices, tt.optional); ok != tt.ok || ok && n != tt.sum {
			t.Errorf("sum of %v, optional from %d: %d, %v", tt.indices, tt.optional, n, ok)
		}
	}
	if n, ok := r.At(1); ok {
		t.Errorf("a malformed number is %d", n)
	}
	r.Parse([]byte("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22"))
	if n, ok := r.At(19); n != 20 || !ok || r.Words != 20 || r.Bad != 0 {
		t.Errorf("a long line: %+v", r)
	}
}

// A Record has the same numbers as Field and Uint find in a line.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{"", " ", "1  2\t3 ", "x 1x 1 -2", "9999999999999999999 18446744073709551615 18446744073709551616", "00000000000000000000000001 2", "1\r\n", strings.Repeat("7 ", 30)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r, want Record
		r.Parse(line)
		for want.Words < len(want.Nums) {
			var word []byte
			if word, line = Field(line); len(word) == 0 {
				break
			}
			n, ok := Uint(word)
			if want.Nums[want.Words] = n; !ok {
				want.Bad |= 1 << want.Words
			}
			want.Words++
		}
		if r != want {
			t.Errorf("%+v, want %+v", r, want)
		}
	})
}

// Numbers have the values that package strconv has for them. strconv accepts more
// formats.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"", "0", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "+1", "1_0", "0x1f", "ffffffffffffffff", "1ffffffffffffffff", "1e3", "nan", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := []byte(s)
		n, ok := Uint(b)
		want, err := strconv.ParseUint(s, 10, 64)
		if ok != (err == nil) || ok && n != want {
			t.Errorf("Uint %q: %d, %v, want %d, %v", s, n, ok, want, err)
		}
		if n, ok = Int(b); ok && s[0] == '-' {
			want, err := strconv.ParseInt(s, 10, 64)
			if err != nil || int64(n) != want {
				t.Errorf("Int %q: %d, want %d, %v", s, int64(n), want, err)
			}
		}
		n, ok = Hex(b)
		want, err = strconv.ParseUint(s, 16, 64)
		if ok != (err == nil) || ok && n != want {
			t.Errorf("Hex %q: %#x, %v, want %#x, %v", s, n, ok, want, err)
		}
		if x, ok := Float(b); ok && (math.IsInf(x, 0) || math.IsNaN(x)) {
			t.Errorf("Float %q: %v", s, x)
		}
	})
}
