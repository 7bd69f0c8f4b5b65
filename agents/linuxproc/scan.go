package linuxproc

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

// intOf is uintOf for a number that may have a sign, in two's complement.
func intOf(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || b[0] != '-' {
		return uintOf(b)
	}
	n, ok = uintOf(b[1:])
	return -n, ok && n <= 1<<63
}

// floatOf returns the number that b is, which is not infinite.
func floatOf(b []byte) (f float64, ok bool) {
	f, err := strconv.ParseFloat(string(b), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// pidOf returns the process that a name in /proc is; 0 if it is none.
func pidOf(b []byte) int32 {
	n, ok := uintOf(b)
	if !ok || n > math.MaxInt32 || b[0] == '0' {
		return 0
	}
	return int32(n)
}
