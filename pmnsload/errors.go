package pmnsload

import (
	"errors"
	"fmt"
	"strings"
)

// A cause is one of the Err variables with a text of its own.
type cause struct {
	error // errors.Is finds it
	text  string
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.error }

func causef(of error, format string, args ...any) error {
	return &cause{of, fmt.Sprintf(format, args...)}
}

// A Pos is a position in a PMNS file. The zero Pos is none.
//
// Pos, Error and ErrorList are not those of package pmcdconf, although they have the
// same form. A Col here is a column of the preprocessed line, an Error is printed as
// by PCP's PMNS parser, and an ErrorList has no warnings. The two packages do not
// import each other, and a third package for the few common lines would be part of
// the public API of both.
type Pos struct {
	File string
	Line int // from 1
	Col  int // in bytes of the preprocessed line, from 1; 0 means the whole line
}

// String returns p as compilers print it: file:line:col.
func (p Pos) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Line > 0 && p.Col > 0 {
		fmt.Fprintf(&b, ":%d", p.Col)
	}
	return b.String()
}

// An Error is one mistake in a PMNS file.
//
// C pmcd differs: it prints no line number for mistakes that it finds after the
// last line, and a line number that is one too high for some others.
type Error struct {
	Pos  Pos
	Text string // the line, without its newline; "" if it is no longer in memory
	Err  error
}

func (e *Error) Error() string {
	if e.Pos == (Pos{}) {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v: %v", e.Pos, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Detail returns the message as PCP prints it, of one line or more, with the
// line and a caret below the position.
func (e *Error) Detail() string {
	if errors.Is(e.Err, ErrCpp) {
		at := e.Pos.File + ":"
		if e.Pos.Line > 0 {
			at = fmt.Sprintf("%s[%d]: %s", e.Pos.File, e.Pos.Line, e.Text)
		}
		return fmt.Sprintf("pmcpp: %s\npmcpp: Error: %v\nError Parsing ASCII PMNS: %v", at, e.Err, ErrCpp)
	}
	var b strings.Builder
	if e.Pos.Line > 0 {
		fmt.Fprintf(&b, "[%s:%d] ", e.Pos.File, e.Pos.Line)
	}
	fmt.Fprintf(&b, "Error Parsing ASCII PMNS: %v", e.Err)
	if text := strings.TrimLeft(e.Text, blanks); text != "" {
		fmt.Fprintf(&b, "\n    %s", text)
		if at := e.Pos.Col - 1 - (len(e.Text) - len(text)); at >= 0 && at <= len(text) {
			fmt.Fprintf(&b, "\n    %s^", padding(text[:at]))
		}
	}
	return b.String()
}

// padding returns blanks as wide as s is on a terminal.
func padding(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, s)
}

// maxErrors is the number of mistakes that an ErrorList holds, besides errMore.
const maxErrors = 20

// An ErrorList is the error of Load: either one mistake of grammar, after which
// Load stops reading, or the mistakes in a tree that was read to its end.
type ErrorList []*Error

// add appends an error and reports whether there is room for more.
func (l *ErrorList) add(pos Pos, err error) bool {
	if len(*l) < maxErrors {
		*l = append(*l, &Error{Pos: pos, Err: err})
		return true
	}
	if len(*l) == maxErrors {
		*l = append(*l, &Error{Err: errMore})
	}
	return false
}

func (l ErrorList) Error() string {
	switch len(l) {
	case 0:
		return "no errors"
	case 1:
		return l[0].Error()
	case 2:
		return fmt.Sprintf("%v (and 1 more error)", l[0])
	}
	return fmt.Sprintf("%v (and %d more errors)", l[0], len(l)-1)
}

// Detail returns the Detail of each, one below the other.
func (l ErrorList) Detail() string {
	var b strings.Builder
	for i, e := range l {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(e.Detail())
	}
	return b.String()
}

// Unwrap lets errors.Is and errors.As look at every mistake.
func (l ErrorList) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// Err returns l as an error. A plain return of an empty ErrorList would be a
// non-nil error.
func (l ErrorList) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}
