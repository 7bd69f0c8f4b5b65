// Package logtext renders records of log/slog as the lines of PCP's logs.
//
// A message may name attributes in braces. Their values are put in their place, and
// {name:q} quotes the value as in Go:
//
//	slog.Info("agent {agent:q} (dom {domain}) is {state}", "agent", "simple", "domain", 253, "state", "late", "client", 4)
//
// is the line
//
//	agent "simple" (dom 253) is late
//
// The attributes that such a message does not name are not part of the line. They are
// fields of the entry, as all others are, where a log has fields. The message itself is
// the same for all entries of its kind, so programs can tell kinds apart by it. A message
// that is a table, or nothing but the text of an error, has an attribute [Event] for that.
//
// A message that names no attribute is followed by all of them, as name=value. Braces
// around anything else than the name of an attribute of the record are text.
//
// Values are often from clients, agents and files, so they cannot control the terminal of the
// one who reads the log, nor look like lines of the program: characters that are not printable
// are shown as Go writes them in strings. A line break is one of them, but in an error: there the
// next line begins with a tab and "| ", as does each line of a []string. The type [Lines] is for
// text with lines as they are.
package logtext

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// LevelAlert is the level of entries with the severity "Alert", such as the texts of SASL's
// library about failed logins.
const LevelAlert = slog.LevelError + 2

// Bare returns an attribute for a line without time and severity, such as a table. It
// is not part of the line, and not a field.
func Bare() slog.Attr { return slog.Any("bare", bare{}) }

// bare is the value of Bare: no other package can make one by accident.
type bare struct{}

// IsBare reports whether a is the attribute that Bare returns.
func IsBare(a slog.Attr) bool { _, ok := a.Value.Any().(bare); return ok }

// Event returns an attribute for a message that does not tell what has happened. Kind is
// the same for all entries of a kind: lower-case words, joined by underscores. It is a
// field of the entry, named event, and not part of the line.
func Event(kind string) slog.Attr { return slog.Any("event", event(kind)) }

// An event is the value of Event.
type event string

func isEvent(a slog.Attr) bool { _, ok := a.Value.Any().(event); return ok }

// appendAttrs appends a to list. The attributes of a group are appended one by one, with
// names as in "group.name". Prefix is in front of each name.
func appendAttrs(list []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	switch {
	case v.Kind() == slog.KindGroup:
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, a := range v.Group() {
			list = appendAttrs(list, prefix, a)
		}
		return list
	case a.Equal(slog.Attr{}):
		return list
	}
	return append(list, slog.Attr{Key: prefix + a.Key, Value: v})
}

// Append appends the text of a message with attributes, as a Scope returns them.
// Template reports whether the message names one of them.
func Append(b []byte, message string, attrs []slog.Attr) (text []byte, template bool) {
	for rest := printable(message, "\n\t"); ; {
		before, after, found := strings.Cut(rest, "{")
		b = append(b, before...)
		if !found {
			break
		}
		name, after2, found := strings.Cut(after, "}")
		plain, quoted := strings.CutSuffix(name, ":q")
		v, ok := value(attrs, plain)
		if !found || !ok {
			b = append(b, '{')
			rest = after
			continue
		}
		if template = true; quoted {
			b = strconv.AppendQuote(b, raw(v))
		} else {
			b = appendValue(b, v)
		}
		rest = after2
	}
	if template {
		return b, true
	}
	for _, a := range attrs {
		if IsBare(a) || isEvent(a) {
			continue
		}
		b = append(b, ' ')
		b = append(b, quote(a.Key)...)
		b = append(b, '=')
		b = append(b, quote(raw(a.Value))...)
	}
	return b, false
}

// value returns the last attribute with a name.
func value(attrs []slog.Attr, name string) (v slog.Value, ok bool) {
	for i := len(attrs) - 1; i >= 0; i-- {
		if attrs[i].Key == name && !IsBare(attrs[i]) {
			return attrs[i].Value, true
		}
	}
	return v, false
}

// Lines is text whose lines are lines of the log: what it is made of cannot have line breaks of
// its own.
type Lines string

// appendValue appends the text of a value as it is in a line.
func appendValue(b []byte, v slog.Value) []byte {
	const mark = "\n\t| "
	switch list := v.Any().(type) {
	case Lines:
		return append(b, Value(v)...)
	case []string:
		for _, line := range list {
			b = append(append(b, mark...), Printable(line)...)
		}
		return b
	case error:
		return append(b, strings.ReplaceAll(strings.TrimRight(Value(v), "\n"), "\n", mark)...)
	}
	return append(b, Printable(raw(v))...)
}

// Value returns the text of a value. It has no control characters but tabs and line breaks.
func Value(v slog.Value) string { return printable(raw(v), "\n\t") }

// raw returns the text of a value as it is.
func raw(v slog.Value) string {
	if bytes, ok := v.Any().([]byte); ok {
		return string(bytes)
	}
	return v.String()
}

// Printable returns s, which may be from anywhere, as a part of a line. Characters that are not
// printable, such as line breaks, escape and those that change the direction of text, are shown as
// Go writes them in strings. Tabs are left.
func Printable(s string) string { return printable(s, "\t") }

// printable is Printable that also leaves the characters of keep.
func printable(s, keep string) string {
	special := func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune(keep, r)
	}
	if !strings.ContainsFunc(s, special) {
		return s
	}
	var b []byte
	for i, r := range s {
		switch _, size := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, "\\x%02x", s[i])
		case special(r) && r != utf8.RuneError:
			q := strconv.AppendQuoteRune(nil, r)
			b = append(b, q[1:len(q)-1]...)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

// quote quotes what would not be one word of a line.
func quote(s string) string {
	special := func(r rune) bool { return r == '"' || r == '=' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, special) {
		return strconv.Quote(s)
	}
	return s
}

// A Scope has what a [slog.Handler] was given by WithAttrs and WithGroup. The zero value
// has nothing.
type Scope struct {
	attrs []slog.Attr
	group string // in front of names, with a dot at its end
}

// WithAttrs returns a Scope with further attributes.
func (s Scope) WithAttrs(attrs []slog.Attr) Scope {
	all := append([]slog.Attr(nil), s.attrs...)
	for _, a := range attrs {
		all = appendAttrs(all, s.group, a)
	}
	return Scope{attrs: all, group: s.group}
}

// WithGroup returns a Scope whose further attributes are in a group.
func (s Scope) WithGroup(name string) Scope {
	if name != "" {
		s.group += name + "."
	}
	return s
}

// Attrs returns the attributes of the scope and of a record, as Append takes them.
func (s Scope) Attrs(r slog.Record) []slog.Attr {
	all := append(make([]slog.Attr, 0, len(s.attrs)+r.NumAttrs()), s.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		all = appendAttrs(all, s.group, a)
		return true
	})
	return all
}
