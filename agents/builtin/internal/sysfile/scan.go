package sysfile

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// CutLine returns the first line of b, without the newline, and the text after it.
func CutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// IsBlank reports whether c separates words.
func IsBlank(c byte) bool { return c == ' ' || c == '\t' }

// Field returns the first word of a line and the text after it.
func Field(b []byte) (word, rest []byte) {
	for len(b) > 0 && IsBlank(b[0]) {
		b = b[1:]
	}
	i := 0
	for i < len(b) && !IsBlank(b[i]) {
		i++
	}
	return b[:i], b[i:]
}

// A Mount is a line of /proc/mounts (fstab(5)).
type Mount struct{ Device, Path, Type, Options []byte }

// Mounts returns the lines of a text like /proc/mounts, in which one blank follows a field. Fields
// that are missing are empty, and so is the device of a mount(2) with the source "".
func Mounts(text []byte) iter.Seq[Mount] {
	return func(yield func(Mount) bool) {
		for len(text) > 0 {
			var m Mount
			var line []byte
			line, text = CutLine(text)
			for _, field := range []*[]byte{&m.Device, &m.Path, &m.Type, &m.Options} {
				*field, line, _ = bytes.Cut(line, []byte{' '})
			}
			if !yield(m) {
				return
			}
		}
	}
}

// Unescape replaces octal numbers, such as \040 for a blank, in a path of /proc/mounts
// (fstab(5)).
func Unescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	var out []byte
	for len(b) > 0 {
		if len(b) > 3 && b[0] == '\\' && isOctal(b[1]) && isOctal(b[2]) && isOctal(b[3]) {
			out = append(out, (b[1]-'0')<<6|(b[2]-'0')<<3|(b[3]-'0'))
			b = b[4:]
			continue
		}
		out = append(out, b[0])
		b = b[1:]
	}
	return string(out)
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// Uint parses a decimal number. ok is false if b is not a number of at most 64
// bits.
func Uint(b []byte) (n uint64, ok bool) {
	if len(b) <= maxDigits {
		for _, c := range b {
			if c -= '0'; c > 9 {
				return 0, false
			}
			n = n*10 + uint64(c)
		}
		return n, len(b) > 0
	}
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// Int is Uint for a number that may have a minus sign. n is in two's complement.
func Int(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || b[0] != '-' {
		return Uint(b)
	}
	n, ok = Uint(b[1:])
	return -n, ok && n <= 1<<63
}

// Hex is Uint for a hexadecimal number, without 0x.
func Hex(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		switch {
		case n>>60 != 0:
			return 0, false
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		case c >= 'A' && c <= 'F':
			n = n<<4 | uint64(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, len(b) > 0
}

// Float parses a floating-point number. ok is false if b is not a finite number.
func Float(b []byte) (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// A Record has the numbers of a line, at most the first 20.
type Record struct {
	Nums  [20]uint64 // 0 for a word that is not a number or is missing
	Words int        // number of words
	Bad   uint32     // bit i is set if word i is not a number
}

// maxDigits is the largest count of digits that always fit into 64 bits.
const maxDigits = 19

// Parse sets r to the numbers of a line.
func (r *Record) Parse(line []byte) {
	*r = Record{}
	i := 0
	for r.Words < len(r.Nums) {
		for i < len(line) && IsBlank(line[i]) {
			i++
		}
		start, n := i, uint64(0)
		for i < len(line) && line[i]-'0' <= 9 {
			n = n*10 + uint64(line[i]-'0')
			i++
		}
		if i-start > maxDigits || i < len(line) && !IsBlank(line[i]) { // too large, or not a number
			word, rest := Field(line[start:])
			i = len(line) - len(rest)
			var ok bool
			if n, ok = Uint(word); !ok {
				r.Bad |= 1 << r.Words
			}
		}
		if i == start {
			break
		}
		r.Nums[r.Words] = n
		r.Words++
	}
}

// At returns number i. ok is false if it is malformed or missing.
func (r *Record) At(i int) (n uint64, ok bool) {
	return r.Nums[i], i < r.Words && r.Bad>>i&1 == 0
}

// Sum returns the sum of the numbers with these indices. ok is false if one of them is
// malformed or missing. A missing number with index optional or above counts as 0:
// older kernels do not write it.
func (r *Record) Sum(indices []int, optional int) (n uint64, ok bool) {
	for _, i := range indices {
		if r.Bad>>i&1 != 0 || i >= r.Words && i < optional {
			return 0, false
		}
		n += r.Nums[i]
	}
	return n, true
}
