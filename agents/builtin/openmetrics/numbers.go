package openmetrics

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// parseValue returns the bits of a value: those of a float64, or an integer. As in PCP's agent, it is
// written as for Python's float or int.
func parseValue(typ pdu.MetricType, b []byte) (uint64, bool) {
	s := string(b) // does not escape
	switch typ {
	case pdu.Metric32, pdu.Metric64:
		s, ok := withoutUnderscores(s)
		n, err := strconv.ParseInt(s, 10, 64)
		return uint64(n), ok && err == nil && (typ == pdu.Metric64 || int64(int32(n)) == n)
	case pdu.MetricU32, pdu.MetricU64:
		s, ok := withoutUnderscores(s)
		n, err := strconv.ParseUint(strings.TrimPrefix(s, "+"), 10, 64)
		return n, ok && err == nil && (typ == pdu.MetricU64 || n>>32 == 0)
	}
	return parseFloat(s)
}

// parseFloat parses a number as Python's float does, which knows no hexadecimal numbers, and a sign
// before NaN.
func parseFloat(s string) (uint64, bool) {
	s, ok := withoutUnderscores(s)
	if !ok || strings.ContainsAny(s, "xX") {
		return 0, false
	}
	if len(s) == 4 && (s[0] == '-' || s[0] == '+') && strings.EqualFold(s[1:], "nan") {
		nan := math.NaN()
		if s[0] == '-' {
			nan = math.Copysign(nan, -1)
		}
		return math.Float64bits(nan), true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return math.Float64bits(f), true
}

// withoutUnderscores removes underscores between digits, which are allowed in Python.
func withoutUnderscores(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	digit := func(i int) bool { return i >= 0 && i < len(s) && '0' <= s[i] && s[i] <= '9' }
	for i := range len(s) {
		if s[i] == '_' && (!digit(i-1) || !digit(i+1)) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}
