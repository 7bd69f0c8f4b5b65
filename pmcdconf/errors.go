package pmcdconf

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// A Pos is a position in a configuration file. The zero Pos is none. For Pos, Error
// and ErrorList of package pmnsload see there.
type Pos struct {
	File string
	Line int // from 1
	Col  int // in bytes, from 1; 0 means the whole line
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

// An Error is one mistake in a configuration file.
type Error struct {
	Pos     Pos
	Warning bool   // the rest of the file still counts
	Text    string // the source line, without its newline
	Err     error

	// How pmcd names the position: "pmcd config" or "access config", and a line
	// number that counts continued lines once. 0 is none.
	section string
	line    int

	summary bool // about the file as a whole, after its mistakes
}

func (e *Error) Error() string {
	if e.Pos == (Pos{}) {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v: %v", e.Pos, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// PCP returns the message as pmcd has it in its log. Scripts and PCP's QA look
// for it.
func (e *Error) PCP() string {
	kind := "Error"
	if e.Warning {
		kind = "Warning"
	}
	switch {
	case e.section == "":
		return fmt.Sprintf("%s: %v", kind, e.Err)
	case e.line == 0:
		return fmt.Sprintf("%s: %v", e.section, e.Err)
	}
	return fmt.Sprintf("%s[line %d]: %s: %v", e.section, e.line, kind, e.Err)
}

// Detail returns the message with the source line and a caret below the position.
func (e *Error) Detail() string {
	if e.Text == "" || e.Pos.Col < 1 || e.Pos.Col > len(e.Text)+1 {
		return e.Error()
	}
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, e.Text[:e.Pos.Col-1])
	return fmt.Sprintf("%v\n\t%s\n\t%s^", e, e.Text, pad)
}

// An ErrorList is every mistake found in one pass, in file order. Parse
// returns it as its error, so that a user can correct all of them at once.
type ErrorList []*Error

// Error returns the first mistake and the number of the others. If there are only
// warnings, it counts these.
func (l ErrorList) Error() string {
	mistakes := make(ErrorList, 0, len(l))
	for _, e := range l {
		if !e.Warning && !e.summary {
			mistakes = append(mistakes, e)
		}
	}
	if len(mistakes) == 0 {
		mistakes = l
	}
	switch len(mistakes) {
	case 0:
		return "no errors"
	case 1:
		return mistakes[0].Error()
	case 2:
		return fmt.Sprintf("%v (and 1 more error)", mistakes[0])
	}
	return fmt.Sprintf("%v (and %d more errors)", mistakes[0], len(mistakes)-1)
}

// Unwrap lets errors.Is and errors.As look at every mistake.
func (l ErrorList) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// Err returns l as an error, or nil if no entry is more than a warning. A
// plain return of an empty ErrorList would be a non-nil error.
func (l ErrorList) Err() error {
	for _, e := range l {
		if !e.Warning {
			return l
		}
	}
	return nil
}

// maxProblems bounds an ErrorList. Without it, a file that consists of mistakes
// would take many times its size in memory.
const maxProblems = 1000

// add appends e, unless there are too many already.
func (l *ErrorList) add(e *Error) {
	switch n := len(*l); {
	case n < maxProblems:
		*l = append(*l, e)
	case n == maxProblems:
		*l = append(*l, &Error{
			Pos:     Pos{File: e.Pos.File},
			Warning: true,
			Err:     errors.New("too many mistakes, the others are not shown"),
			section: e.section,
			summary: true,
		})
	}
}

// sort puts the entries in the order of the file, those without a line last.
func (l ErrorList) sort() {
	line := func(e *Error) int {
		if e.Pos.Line == 0 {
			return int(^uint(0) >> 1)
		}
		return e.Pos.Line
	}
	sort.SliceStable(l, func(i, j int) bool { return line(l[i]) < line(l[j]) })
}
