package linux

import (
	"bytes"
	"math"
	"strconv"
)

// cutLine returns the first line of b, without its end, and what is behind it.
func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// field returns the first word of a line, and what is behind it.
func field(b []byte) (word, rest []byte) {
	for len(b) > 0 && isBlank(b[0]) {
		b = b[1:]
	}
	i := 0
	for i < len(b) && !isBlank(b[i]) {
		i++
	}
	return b[:i], b[i:]
}

// uintOf returns the decimal number that b is; ok is false if it is none, or
// one of more than 64 bits.
func uintOf(b []byte) (n uint64, ok bool) {
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// hexUint is uintOf for a hexadecimal number.
func hexUint(b []byte) (n uint64, ok bool) {
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

// A record is the numbers of a line.
type record struct {
	nums  [20]uint64
	words int    // how many there are
	bad   uint32 // bits of those that are no numbers
}

func (r *record) parse(line []byte) {
	*r = record{}
	for r.words < len(r.nums) {
		var word []byte
		if word, line = field(line); len(word) == 0 {
			break
		}
		n, ok := uintOf(word)
		if !ok {
			r.bad |= 1 << r.words
		}
		r.nums[r.words] = n
		r.words++
	}
}

// at returns the number in a place; ok is false if it is broken or not there.
func (r *record) at(i int) (n uint64, ok bool) {
	return r.nums[i], i < r.words && r.bad>>i&1 == 0
}

// sum returns the sum of numbers, by their places; ok is false if one is broken
// or not there. From place optional on, one that is not there is 0: older
// kernels lack it.
func (r *record) sum(places []int, optional int) (n uint64, ok bool) {
	for _, i := range places {
		if r.bad>>i&1 != 0 || i >= r.words && i < optional {
			return 0, false
		}
		n += r.nums[i]
	}
	return n, true
}

// floatOf returns the number that b is, which is not infinite.
func floatOf(b []byte) (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}
