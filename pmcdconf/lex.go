package pmcdconf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxLine is the length of the longest line, with its continuations, that
	// pmcd accepts, in bytes. It is not in pmcd(1); the messages of C pmcd's
	// parser say 2200.
	//
	// C pmcd differs: it counts each continued part as at least 200 bytes, so
	// that it rejects a line of eleven parts of any length.
	maxLine = 2198
	// maxFile is the largest file in bytes. It bounds time and memory.
	maxFile = 1 << 20
)

// A scanError is a mistake at which the scanner stops.
type scanError struct{ error }

func (e scanError) Unwrap() error { return e.error }

// A line is a line of a file with its continuations: "\" before the newline
// stands for a blank.
type line struct {
	text   string
	number int   // as pmcd counts: continuations are not lines
	first  int   // number in the file, from 1
	starts []int // offsets in text of the lines of the file
}

// part returns the index in starts of the line of the file at an offset in text.
func (l *line) part(off int) int {
	i := len(l.starts) - 1
	for i > 0 && l.starts[i] > off {
		i--
	}
	return i
}

// A token is a word of a line.
type token struct {
	text   string // escapes resolved
	quoted bool
	eof    bool // the end of the file
	line   *line
	off    int // of its start in line.text, including the quote
}

// is reports whether t is the word w, which is in lower case.
func (t token) is(w string) bool { return strings.EqualFold(t.text, w) }

// A scanner cuts a file into lines and lines into tokens.
type scanner struct {
	file    string
	section string // pmcd's name for the file in messages
	r       *bufio.Reader
	cur     *line
	off     int  // of the rest of cur
	access  bool // delimiters are tokens, line ends are white space
	ended   bool // the last line read had no newline
	size    int  // bytes read
}

func newScanner(file, section string, r io.Reader) *scanner {
	return &scanner{
		file:    file,
		section: section,
		r:       bufio.NewReader(r),
		cur:     &line{starts: []int{0}},
	}
}

// next reads a line. It returns io.EOF after the last one, and a scanError.
func (s *scanner) next() error {
	if s.ended {
		s.off = len(s.cur.text)
		return io.EOF
	}
	l := &line{number: s.cur.number + 1, first: 1, starts: []int{0}}
	if s.cur.number > 0 {
		l.first = s.cur.first + len(s.cur.starts)
	}
	s.cur, s.off = l, 0
	var text []byte
	defer func() { l.text = string(text) }()
	for {
		c, err := s.r.ReadByte()
		switch {
		case err == io.EOF && len(text) == 0:
			return io.EOF
		case err == io.EOF:
			s.ended = true
			return nil
		case err != nil:
			return scanError{err}
		}
		if s.size++; s.size > maxFile {
			return scanError{fmt.Errorf("file of more than %d bytes", maxFile)}
		}
		switch n := len(text); {
		case c == 0:
			// C pmcd differs: for it a NUL ends the line or the file.
			return scanError{errors.New("NUL character")}
		case c == '\n' && (n == 0 || text[n-1] != '\\'):
			return nil
		case c == '\n':
			text[n-1] = ' '
			l.starts = append(l.starts, n)
		case n == maxLine:
			return scanError{errors.New("ridiculously long line (2200 characters)")}
		default:
			text = append(text, c)
		}
	}
}

func isSpace(c byte) bool {
	return c == ' ' || '\t' <= c && c <= '\r'
}

// isDelimiter reports whether c is a token by itself in the access section.
func isDelimiter(c byte) bool { return strings.IndexByte(",:;[]", c) >= 0 }

// skip passes white space and a comment.
func (s *scanner) skip() {
	t := s.cur.text
	for s.off < len(t) && isSpace(t[s.off]) {
		s.off++
	}
	if s.off < len(t) && t[s.off] == '#' {
		s.off = len(t)
	}
}

// token returns the next token of the line or, in the access section, of the file.
// The error is io.EOF if there is none, or a scanError. With an error, the token has
// the position of the error.
func (s *scanner) token() (token, error) {
	s.skip()
	for s.access && s.off == len(s.cur.text) {
		if err := s.next(); err != nil {
			return token{line: s.cur, off: s.off, eof: err == io.EOF}, err
		}
		s.skip()
	}
	t, start := s.cur.text, s.off
	tok := token{line: s.cur, off: start}
	switch {
	case start == len(t):
		return tok, io.EOF
	case s.access && isDelimiter(t[start]):
		s.off++
		tok.text = t[start:s.off]
		return tok, nil
	case t[start] == '"':
		tok.quoted = true
		s.off++
	}
	var b strings.Builder
	for ; s.off < len(t); s.off++ {
		c := t[s.off]
		if c == '\\' && s.off+1 < len(t) && (t[s.off+1] == '"' || t[s.off+1] == '#') {
			s.off++
			b.WriteByte(t[s.off])
			continue
		}
		if tok.quoted {
			if c == '"' {
				s.off++
				tok.text = b.String()
				return tok, nil
			}
		} else if isSpace(c) || c == '#' || s.access && isDelimiter(c) {
			break
		}
		b.WriteByte(c)
	}
	if tok.quoted {
		return tok, scanError{errors.New("unterminated quoted string")}
	}
	tok.text = b.String()
	return tok, nil
}

// err returns a mistake at t.
func (s *scanner) err(t token, err error) *Error {
	l := t.line
	i := l.part(t.off)
	end := len(l.text)
	if i+1 < len(l.starts) {
		end = l.starts[i+1]
	}
	return &Error{
		Pos:     Pos{s.file, l.first + i, t.off - l.starts[i] + 1},
		Text:    strings.TrimRight(l.text[l.starts[i]:end], "\r"),
		Err:     err,
		section: s.section,
		line:    l.number,
	}
}

func (s *scanner) errf(t token, format string, args ...any) *Error {
	return s.err(t, fmt.Errorf(format, args...))
}

// broken returns the mistake that stopped the scanner at t.
func (s *scanner) broken(t token, err error) *Error {
	var e scanError
	if errors.As(err, &e) {
		err = e.error
	}
	return s.err(t, err)
}
