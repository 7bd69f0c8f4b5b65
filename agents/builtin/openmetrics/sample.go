package openmetrics

import (
	"bytes"
	"errors"
)

// A label is a label of a series.
type label struct{ name, value string }

var (
	errSample = errors.New("not NAME{LABEL=\"VALUE\",...} VALUE")
	errName   = errors.New("not a name of a metric")
	errValue  = errors.New("the value is not of the metric's type")
)

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// splitSample cuts the line of a sample, without blanks around it, into the part that names the
// series, which is a name and labels in braces, and the value. A timestamp or exemplar after the
// value is left out.
func splitSample(line []byte) (series, value []byte, err error) {
	i := 0
	for i < len(line) && line[i] != '{' && !isSpace(line[i]) {
		i++
	}
	end := i
	i = skipSpace(line, i)
	if i < len(line) && line[i] == '{' {
		n, err := scanLabels(line[i+1:], nil)
		if err != nil {
			return nil, nil, err
		}
		end = i + 1 + n
		i = skipSpace(line, end)
	}
	value = line[i:]
	for j, c := range value {
		if isSpace(c) {
			value = value[:j]
			break
		}
	}
	if end == 0 || len(value) == 0 {
		return nil, nil, errSample
	}
	return line[:end], value, nil
}

// skipSpace returns the index of the first byte from i on that is no blank.
func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// parseSeries parses the part of a sample that names the series. Of several labels with a name,
// the last counts. The result has no labels for "name" and for "name{}".
func parseSeries(key string) (name string, labels []label, err error) {
	series := []byte(key)
	open := bytes.IndexByte(series, '{')
	if open < 0 {
		return string(series), nil, nil
	}
	_, err = scanLabels(series[open+1:], func(name, value []byte) error {
		if len(labels) == maxLabels {
			return errTooManyLabels
		}
		labels = setLabel(labels, label{string(name), unquote(value)})
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return string(bytes.TrimSpace(series[:open])), labels, nil
}

// scanLabels calls add, if it is not nil, for each of the labels that b begins with, and returns how
// many bytes they take, with the brace that closes them. A name is what precedes a blank or "=", as
// in PCP's agent: if it is in quotes, these are part of it. A value is without its quotes, and not
// unquoted.
//
// C differs: quoted names with blanks or "=" in them end the page.
func scanLabels(b []byte, add func(name, value []byte) error) (n int, err error) {
	i := 0
	for {
		i = skipSpace(b, i)
		if i < len(b) && b[i] == '}' {
			return i + 1, nil
		}
		start := i
		if i < len(b) && b[i] == '"' {
			i = skipQuoted(b, i)
		} else {
			i++ // whatever it is
		}
		for i < len(b) && b[i] != '=' && !isSpace(b[i]) {
			i++
		}
		end := i
		i = skipSpace(b, i)
		if i >= len(b) || b[i] != '=' {
			return 0, errSample
		}
		i = skipSpace(b, i+1)
		if i >= len(b) || b[i] != '"' {
			return 0, errSample
		}
		value := i + 1
		if i = skipQuoted(b, i); i > len(b) {
			return 0, errSample
		}
		if add != nil {
			if err := add(b[start:end], b[value:i-1]); err != nil {
				return 0, err
			}
		}
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i++
		case i < len(b) && b[i] == '}':
		default:
			return 0, errSample
		}
	}
}

// skipQuoted returns the index behind the quote that closes the one at index i. It is more than
// len(b) if there is none.
func skipQuoted(b []byte, i int) int {
	for i++; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// setLabel appends a label, or replaces the value of the one with its name.
func setLabel(labels []label, l label) []label {
	for i := range labels {
		if labels[i].name == l.name {
			labels[i].value = l.value
			return labels
		}
	}
	return append(labels, l)
}

// unquote returns the value of a label.
func unquote(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	var out []byte
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			i++
			switch c = b[i]; c {
			case 'n':
				c = '\n'
			case '\\', '"':
			default:
				out = append(out, '\\')
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// validName reports whether a metric of a page can have a name.
func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '.' && c != ':') {
			return false
		}
	}
	return s != ""
}
