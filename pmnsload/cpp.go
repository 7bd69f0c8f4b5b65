package pmnsload

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
)

// maxLevels is the maximum number of open files: the first one and four levels of
// #include.
const maxLevels = 5

// A cpp preprocesses a file as pmcpp(1) does. It yields a line for each line that it
// reads, with blanks in place of comments and values in place of macros. For control
// lines and skipped lines it yields empty lines. A line
//
//	# N "file"
//
// says that the next line is line N of another file.
//
// A cpp holds only a line, the open files and the macros in memory, because macros
// are replaced once. Its budget bounds the number of bytes that it reads and yields.
type cpp struct {
	opt    *Options
	dir    string // of the first file
	spent  *budget
	stack  []*input // open files; the last is being read
	macros map[string]string
	marker string // the next line to yield, or ""
	out    []byte // a line with macros replaced

	comment int // the line on which an open comment began, or 0
	branch  branch
	ifLine  int // the line of the open #ifdef or #ifndef
}

// A branch is the part of an #ifdef that a line is in. #ifdefs do not nest.
type branch int

const (
	outside branch = iota
	taken
	skipped
)

func newCpp(name string, rc io.ReadCloser, opt *Options, spent *budget) *cpp {
	c := &cpp{opt: opt, dir: filepath.Dir(name), spent: spent, macros: map[string]string{}}
	c.push(newInput(name, rc, spent))
	return c
}

func (c *cpp) push(in *input) {
	c.stack = append(c.stack, in)
	c.marker = fmt.Sprintf("# 1 \"%s\"", in.name)
}

// close closes the open files.
func (c *cpp) close() {
	for ; len(c.stack) > 0; c.stack = c.stack[:len(c.stack)-1] {
		c.stack[len(c.stack)-1].close()
	}
}

// next implements lineSource. Its errors are io.EOF and *Error.
func (c *cpp) next() ([]byte, error) {
	if c.marker == "" {
		line, err := c.line()
		if err != nil || c.marker == "" {
			return line, err
		}
		// Another file is read now: the line is its marker.
	}
	line := append(c.out[:0], c.marker...)
	c.out, c.marker = line, ""
	return line, nil
}

// line reads a line. If another file is read after it, line sets c.marker.
func (c *cpp) line() ([]byte, error) {
	in := c.stack[len(c.stack)-1]
	line, err := in.next()
	if err == io.EOF {
		return nil, c.leave(in)
	}
	if err != nil {
		return nil, c.inputError(line, err)
	}
	line = c.stripComments(line)
	if len(line) > 0 && line[0] == '#' {
		if known, err := c.control(line); known || err != nil {
			return nil, err
		}
	}
	if c.branch == skipped {
		// C pmcd differs: pmcpp yields an unknown # line of a skipped branch, and
		// does not skip the rest of the branch.
		return nil, nil
	}
	line, err = c.expand(line)
	if err == nil {
		err = c.spent.spend(int64(len(line)) + 1)
	}
	if err != nil {
		return nil, c.inputError(nil, err)
	}
	return line, nil
}

// leave closes in, which has been read to its end.
func (c *cpp) leave(in *input) error {
	c.stack = c.stack[:len(c.stack)-1]
	err := in.close()
	if len(c.stack) > 0 {
		from := c.stack[len(c.stack)-1]
		if err != nil && c.opt.Warn != nil {
			c.opt.Warn(&Error{Pos: Pos{File: from.name, Line: from.line}, Err: err})
		}
		c.marker = fmt.Sprintf("# %d \"%s\"", from.line+1, from.name)
		return nil
	}
	pos := Pos{File: in.name}
	if c.comment > 0 {
		return &Error{pos, "", causef(ErrCpp, "Comment at line %d not terminated before end of file", c.comment)}
	}
	if c.branch != outside {
		return &Error{pos, "", causef(ErrCpp, "End of input and no matching #endif for #ifdef or #ifndef at line %d", c.ifLine)}
	}
	return io.EOF
}

// inputError adds the position to an error of reading.
func (c *cpp) inputError(line []byte, err error) error {
	in := c.stack[len(c.stack)-1]
	return &Error{Pos{in.name, in.line, 0}, clip(line), err}
}

// errorf returns the error for a mistake in a control line.
func (c *cpp) errorf(line []byte, format string, args ...any) error {
	return c.inputError(line, causef(ErrCpp, format, args...))
}

// clip returns the start of a line, for a message.
func clip(line []byte) string {
	const most = 256
	if len(line) > most {
		return string(line[:most]) + "..."
	}
	return string(line)
}

// stripComments replaces comments in line by blanks. It changes line. Comments do not
// nest, and strings have no effect on them.
func (c *cpp) stripComments(line []byte) []byte {
	if c.comment == 0 && !bytes.Contains(line, []byte("/*")) {
		return line
	}
	for i := 0; i < len(line); {
		start := i
		if c.comment == 0 {
			k := bytes.Index(line[i:], []byte("/*"))
			if k < 0 {
				break
			}
			start += k
			i = start + 2
			c.comment = c.stack[len(c.stack)-1].line
		}
		if k := bytes.Index(line[i:], []byte("*/")); k >= 0 {
			i += k + 2
			c.comment = 0
		} else {
			i = len(line)
		}
		for j := start; j < i; j++ {
			line[j] = ' '
		}
	}
	return bytes.TrimRight(line, blanks)
}

// expand replaces the macros in line by their values. It does not expand the values.
func (c *cpp) expand(line []byte) ([]byte, error) {
	if len(c.macros) == 0 {
		return line, nil
	}
	out, done := c.out[:0], 0 // line[:done] is in out
	for i := 0; i < len(line); {
		if !isLetter(line[i]) && line[i] != '_' {
			i++
			continue
		}
		n := macroName(line[i:])
		if value, ok := c.macros[string(line[i:i+n])]; ok {
			out = append(append(out, line[done:i]...), value...)
			done = i + n
			if len(out) > maxLine {
				return nil, ErrLine
			}
		}
		i += n
	}
	if done == 0 {
		return line, nil
	}
	c.out = append(out, line[done:]...)
	return c.out, nil
}

// macroName returns the length of the macro's name at the start of s.
func macroName(s []byte) int {
	for i, b := range s {
		if !isLetter(b) && b != '_' && (i == 0 || !isDigit(b)) {
			return i
		}
	}
	return len(s)
}

// Letters are those of the C locale.
func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }
func isDigit(b byte) bool  { return b >= '0' && b <= '9' }
func isBlank(b byte) bool  { return b == ' ' || b >= '\t' && b <= '\r' }
