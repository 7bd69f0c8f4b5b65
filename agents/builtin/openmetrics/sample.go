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
	for i < len(line) && isSpace(line[i]) {
		i++
	}
	if i < len(line) && line[i] == '{' {
		quoted := false
		for i++; ; i++ {
			if i >= len(line) {
				return nil, nil, errSample
			}
			c := line[i]
			if quoted && c == '\\' {
				i++
			} else if c == '"' {
				quoted = !quoted
			} else if c == '}' && !quoted {
				break
			}
		}
		i++
		end = i
		for i < len(line) && isSpace(line[i]) {
			i++
		}
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

// parseSeries parses the part of a sample that names the series. Of several labels with a name,
// the last counts. The result has no labels for "name" and for "name{}".
func parseSeries(key string) (name string, labels []label, err error) {
	series := []byte(key)
	open := bytes.IndexByte(series, '{')
	if open < 0 {
		return string(series), nil, nil
	}
	name = string(bytes.TrimSpace(series[:open]))
	rest := series[open+1 : len(series)-1]
	for {
		rest = bytes.TrimLeft(rest, " \t\r\v\f")
		if len(rest) == 0 {
			return name, labels, nil
		}
		if len(labels) == maxLabels {
			return "", nil, errTooManyLabels
		}
		lname, after, ok := bytes.Cut(rest, []byte{'='})
		lname, after = bytes.TrimSpace(lname), bytes.TrimLeft(after, " \t")
		if !ok || len(lname) == 0 || len(after) == 0 || after[0] != '"' || bytes.IndexFunc(lname, func(r rune) bool { return r == ' ' || r == '"' }) >= 0 {
			return "", nil, errSample
		}
		value, n, ok := unquote(after[1:])
		if !ok {
			return "", nil, errSample
		}
		labels = setLabel(labels, label{string(lname), value})
		rest = bytes.TrimLeft(after[1+n:], " \t")
		if len(rest) > 0 && rest[0] != ',' {
			return "", nil, errSample
		}
		rest = bytes.TrimPrefix(rest, []byte{','})
	}
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

// unquote returns the text up to the closing quote and how many bytes that takes with the quote.
func unquote(b []byte) (s string, n int, ok bool) {
	var out []byte
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return string(out), i + 1, true
		case c == '\\' && i+1 < len(b):
			i++
			switch b[i] {
			case 'n':
				out = append(out, '\n')
			case '\\', '"':
				out = append(out, b[i])
			default:
				out = append(out, '\\', b[i])
			}
		default:
			out = append(out, c)
		}
	}
	return "", 0, false
}

// validName reports whether a metric of a page can have a name: the page is taken for one of metrics
// only up to a line with another name.
func validName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '.' && c != ':') {
			return false
		}
	}
	return s != ""
}
