package pmnsload

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
)

// maxLevels is how many files may be open at once: the first one, and what is
// included, 4 deep.
const maxLevels = 5

// A cpp reads a file as pmcpp(1) does, and yields a line for each line it
// reads: blanks for comments, nothing for control lines and what they leave
// out, the value for a macro. A line
//
//	# N "file"
//
// tells that the next one is line N of another file.
//
// There is no output to grow and macros are replaced once, so a cpp holds a
// line, the open files and the macros. How much it may read and yield is
// bounded by its budget.
type cpp struct {
	opt    *Options
	dir    string // of the first file
	spent  *budget
	stack  []*input // the one being read is last
	macros map[string]string
	marker string // to be yielded next
	out    []byte // a line with macros replaced

	comment int // the line that an open comment began on, or 0
	branch  branch
	ifLine  int // the line of the open #ifdef or #ifndef
}

// A branch tells where a line is in an #ifdef. There is no nesting.
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

// close closes the files that are open still.
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
		// A file was entered or left: its marker is the line.
	}
	line := append(c.out[:0], c.marker...)
	c.out, c.marker = line, ""
	return line, nil
}

// line reads a line, or enters or leaves a file, which sets c.marker.
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
		// C pmcd differs: a # line that pmcpp does not know passes, and
		// turns this branch into the one taken.
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

// leave closes in, which was read to its end.
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

// inputError gives an error of reading its place.
func (c *cpp) inputError(line []byte, err error) error {
	in := c.stack[len(c.stack)-1]
	return &Error{Pos{in.name, in.line, 0}, clip(line), err}
}

// errorf is a mistake in a control line.
func (c *cpp) errorf(line []byte, format string, args ...any) error {
	return c.inputError(line, causef(ErrCpp, format, args...))
}

// clip returns a line for a message.
func clip(line []byte) string {
	const most = 256
	if len(line) > most {
		return string(line[:most]) + "..."
	}
	return string(line)
}

// stripComments puts blanks in place of what of a comment is in line, which
// may be written to, as it has been read. There is no comment that begins
// within another one, and strings are not known here.
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

// expand replaces the words of line that are macros. Values are not looked
// at again.
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

// macroName reports how many bytes at the start of s are a macro's name.
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
