package cache

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
)

// The file is text (pmdaCache(3), "FILES"; the manual page does not have the format):
//
//	2 MODE MAX                 version 1 has no MAX; MODE is 1 for PMDA_CACHE_REUSE
//	INST STAMP [KEY] NAME      a line for each instance; KEY is hexadecimal,
//	INST STAMP NAME            NAME is the rest of the line

const (
	maxLine = 1022     // bytes of a line without the newline, as in C
	maxFile = 64 << 20 // bytes; C has no limit
)

var errHeader, errRecord = errors.New("invalid header"), errors.New("invalid line")

// appendRecord appends the line of an entry, without the newline.
func appendRecord(b []byte, e *entry) []byte {
	b = strconv.AppendInt(b, int64(e.Inst), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, e.stamp, 10)
	if e.key != "" {
		b = append(b, " ["...)
		b = hex.AppendEncode(b, []byte(e.key))
		b = append(b, ']')
	}
	b = append(b, ' ')
	return append(b, e.Name...)
}

// parseRecord parses the line of an instance. Brackets that do not enclose a key are
// a part of the name, as in "[::1]:80".
func parseRecord(line []byte) (e entry, ok bool) {
	if len(line) > maxLine || bytes.ContainsAny(line, "\n\x00") {
		return e, false
	}
	inst, line, ok := parseNumber(line, math.MaxInt32)
	if !ok {
		return e, false
	}
	stamp, line, ok := parseNumber(line, math.MaxInt64)
	if !ok || len(line) == 0 {
		return e, false
	}
	e.Inst, e.stamp = int32(inst), stamp
	if line[0] == '[' {
		text, rest, _ := bytes.Cut(line[1:], []byte("]"))
		key := make([]byte, hex.DecodedLen(len(text)))
		if name := trimSpace(rest); len(key) > 0 && len(name) > 0 && len(name) < len(rest) {
			if _, err := hex.Decode(key, text); err == nil {
				e.key, line = string(key), name
			}
		}
	}
	e.Name = string(line)
	return e, true
}

// parseNumber parses a number, and removes blanks before and after it. There must be
// a blank after it.
func parseNumber(line []byte, limit int64) (n int64, rest []byte, ok bool) {
	rest = trimSpace(line)
	for ; len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9'; rest = rest[1:] {
		d := int64(rest[0] - '0')
		if n > (limit-d)/10 {
			return 0, nil, false
		}
		n, ok = 10*n+d, true
	}
	name := trimSpace(rest)
	return n, name, ok && len(name) < len(rest)
}

// trimSpace removes leading white space as defined by isspace(3).
func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\n\v\f\r") }
