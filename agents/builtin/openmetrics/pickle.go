package openmetrics

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// PCP's agent saves numbers with Python's pickle, protocol 0, which is text: a list of strings,
// and after it whether the names of instances begin with their number.
//
//	(lp0\n           a list, number 0 of the memo
//	VNAME\np1\na     a string, number 1 of the memo, is appended
//	.                the end of the list
//	I01\n.           true; I00 is false
//
// Python 2 has written SNAME instead of VNAME, where NAME is in quotes.
//
// A pickle can have Python make and call anything. So this decoder is no interpreter of pickles:
// it knows the form above, and anything else is an error.

var errPickle = errors.New("not a list of names as PCP's agent writes it")

// parsePickle returns the list of names and the bool. The bool may be missing.
func parsePickle(b []byte, maxNames int) (names []string, prefix bool, err error) {
	p := pickle{rest: b}
	fail := func(err error) ([]string, bool, error) {
		return nil, false, fmt.Errorf("byte %d: %w", len(b)-len(p.rest), err)
	}
	if !p.skip("(l") {
		return fail(errPickle)
	}
	size := 0
	memo := make(map[int]int) // what GET can name: memo numbers to indexes of names
	if _, _, err := p.put(); err != nil {
		return fail(err)
	}
	for !p.skip(".") {
		name, from := "", len(names)
		switch {
		case p.skip("V"):
			name, err = p.unicode()
		case p.skip("S"):
			name, err = p.quoted()
		case p.skip("g"):
			var n int
			if n, err = p.number(); err == nil {
				i, ok := memo[n]
				if !ok {
					return fail(errPickle)
				}
				name, from = names[i], i
			}
		default:
			err = errPickle
		}
		if err != nil {
			return fail(err)
		}
		if len(names) == maxNames {
			return fail(fmt.Errorf("more than %d names", maxNames))
		}
		if size += len(name); size > 2*maxSavedFile { // names of the memo take few bytes of the file
			return fail(errors.New("the names are too long"))
		}
		n, ok, err := p.put()
		if err != nil {
			return fail(err)
		}
		if ok {
			memo[n] = from
		}
		if !p.skip("a") {
			return fail(errPickle)
		}
		names = append(names, name)
	}
	if len(p.rest) == 0 {
		return names, false, nil
	}
	switch {
	case p.skip("I01\n."):
		prefix = true
	case p.skip("I00\n."):
	default:
		return fail(errPickle)
	}
	if len(p.rest) > 0 {
		return fail(errPickle)
	}
	return names, prefix, nil
}

type pickle struct{ rest []byte }

func (p *pickle) skip(s string) bool {
	rest, ok := bytes.CutPrefix(p.rest, []byte(s))
	p.rest = rest
	return ok
}

// line returns what precedes the next newline.
func (p *pickle) line() ([]byte, error) {
	line, rest, ok := bytes.Cut(p.rest, []byte{'\n'})
	if !ok {
		return nil, errPickle
	}
	p.rest = rest
	return line, nil
}

func (p *pickle) number() (int, error) {
	line, err := p.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(line), 10, 31)
	if err != nil {
		return 0, errPickle
	}
	return int(n), nil
}

// put parses a number of the memo, if there is one.
func (p *pickle) put() (n int, ok bool, err error) {
	if !p.skip("p") {
		return 0, false, nil
	}
	n, err = p.number()
	return n, err == nil, err
}

// unicode parses a string in Latin-1, in which \uXXXX and \UXXXXXXXX are characters.
func (p *pickle) unicode() (string, error) {
	line, err := p.line()
	if err != nil {
		return "", err
	}
	var s strings.Builder
	high := rune(-1) // the first half of a pair; some builds of Python 2 wrote two
	for i := 0; i < len(line); {
		r, n := rune(line[i]), 1
		if digits := escapeDigits(line[i:]); digits > 0 {
			if len(line) < i+2+digits {
				return "", errPickle
			}
			v, err := strconv.ParseUint(string(line[i+2:i+2+digits]), 16, 32)
			if err != nil || v > utf8.MaxRune {
				return "", errPickle
			}
			r, n = rune(v), 2+digits
		}
		i += n
		switch {
		case high >= 0:
			if r = utf16.DecodeRune(high, r); r == utf8.RuneError {
				return "", errPickle
			}
			high = -1
		case 0xd800 <= r && r < 0xdc00:
			high = r
			continue
		case 0xdc00 <= r && r < 0xe000:
			return "", errPickle
		}
		s.WriteRune(r)
	}
	if high >= 0 {
		return "", errPickle
	}
	return s.String(), nil
}

// escapeDigits returns how many digits an escape at the start of b has; 0 if there is none.
func escapeDigits(b []byte) int {
	switch {
	case len(b) < 2 || b[0] != '\\':
		return 0
	case b[1] == 'u':
		return 4
	case b[1] == 'U':
		return 8
	}
	return 0
}

// quoted parses a string of bytes in quotes, of Python 2.
func (p *pickle) quoted() (string, error) {
	line, err := p.line()
	if err != nil {
		return "", err
	}
	if n := len(line); n < 2 || line[0] != line[n-1] || line[0] != '\'' && line[0] != '"' {
		return "", errPickle
	}
	quote, line := line[0], line[1:len(line)-1]
	var s []byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == quote:
			return "", errPickle
		case c != '\\':
			s = append(s, c)
			continue
		}
		if i++; i == len(line) {
			return "", errPickle
		}
		switch c := line[i]; c {
		case '\\', '\'', '"':
			s = append(s, c)
		case 'n':
			s = append(s, '\n')
		case 'r':
			s = append(s, '\r')
		case 't':
			s = append(s, '\t')
		case 'x':
			if len(line) < i+3 {
				return "", errPickle
			}
			v, err := strconv.ParseUint(string(line[i+1:i+3]), 16, 8)
			if err != nil {
				return "", errPickle
			}
			s = append(s, byte(v))
			i += 2
		default:
			return "", errPickle
		}
	}
	if !utf8.Valid(s) {
		return "", errPickle
	}
	return string(s), nil
}

// appendPickle appends what PCP's agent would write.
func appendPickle(b []byte, names []string, prefix bool) []byte {
	b = append(b, "(lp0\n"...)
	for i, name := range names {
		b = appendName(b, name, i)
	}
	b = append(b, '.')
	if prefix {
		return append(b, "I01\n."...)
	}
	return append(b, "I00\n."...)
}

// appendName appends name number i.
func appendName(b []byte, name string, i int) []byte {
	b = append(b, 'V')
	for _, r := range name {
		switch {
		case r > 0xffff:
			b = fmt.Appendf(b, `\U%08x`, r)
		case r > 0xff || strings.ContainsRune("\\\x00\n\r\x1a", r):
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, byte(r))
		}
	}
	b = append(b, "\np"...)
	b = strconv.AppendInt(b, int64(i+1), 10)
	return append(b, "\na"...)
}

// savedBytes is how many bytes of a file have names, of which the first has number from.
func savedBytes(names []string, from int) (n int) {
	var b []byte
	for i, name := range names {
		b = appendName(b[:0], name, from+i)
		n += len(b)
	}
	return n
}
