package pmnsload

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
)

// control executes a line that begins with #, and reports whether it is a control
// line of pmcpp. The words need no blank after them: #defineX is #define X.
func (c *cpp) control(line []byte) (known bool, err error) {
	for _, d := range []struct {
		word string
		obey func(c *cpp, line, rest []byte) error
	}{
		{"include", (*cpp).include},
		{"shell", (*cpp).shell},
		{"define", (*cpp).define},
		{"undef", (*cpp).undef},
		{"ifdef", (*cpp).ifdef},
		{"ifndef", (*cpp).ifndef},
		{"else", (*cpp).flip},
		{"endif", (*cpp).endif},
	} {
		if rest, ok := bytes.CutPrefix(line[1:], []byte(d.word)); ok {
			return true, d.obey(c, line, bytes.TrimLeft(rest, blanks))
		}
	}
	return false, nil
}

// include executes #include: it starts to read another file.
func (c *cpp) include(line, rest []byte) error {
	if c.branch == skipped {
		return nil
	}
	end := byte('"')
	switch {
	case bytes.HasPrefix(rest, []byte{'<'}):
		end = '>'
	case !bytes.HasPrefix(rest, []byte{'"'}):
		return c.errorf(line, `Expected " or < after #include`)
	}
	name, rest, ok := bytes.Cut(rest[1:], []byte{end})
	if !ok {
		return c.errorf(line, "Expected %c after file name", end)
	}
	if len(c.stack) == maxLevels {
		return c.errorf(line, "#include and/or #shell nesting too deep")
	}
	if len(bytes.Trim(rest, blanks)) > 0 {
		return c.errorf(line, "Unexpected extra text in #include line")
	}
	path, rc, err := c.find(string(name))
	if err != nil {
		return c.inputError(line, &cause{errors.Join(ErrCpp, err), "Cannot open file for #include"})
	}
	c.push(newInput(path, rc, c.spent))
	return nil
}

// find opens the file of an #include. It tries the name as it is, then in the
// directory of the first file, then in Options.IncludePath. It does not search the
// directory of the file with the #include.
func (c *cpp) find(name string) (path string, rc io.ReadCloser, err error) {
	path = name
	if rc, err = c.opt.Open(path); err == nil || filepath.IsAbs(name) {
		return path, rc, err
	}
	for _, dir := range append([]string{c.dir}, c.opt.IncludePath...) {
		path = dir + "/" + name // not cleaned, because messages contain it
		if rc, err := c.opt.Open(path); err == nil {
			return path, rc, nil
		}
	}
	return "", nil, err
}

// shell executes #shell: it starts to read the output of a command.
func (c *cpp) shell(line, rest []byte) error {
	if c.branch == skipped {
		return nil
	}
	if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return c.errorf(line, `Expected " or ' after #shell`)
	}
	end := rest[0]
	command, rest, ok := bytes.Cut(rest[1:], []byte{end})
	if !ok {
		return c.errorf(line, "Expected %c after command", end)
	}
	if len(c.stack) == maxLevels {
		return c.errorf(line, "#shell and/or #include nesting too deep")
	}
	if len(bytes.Trim(rest, blanks)) > 0 {
		return c.errorf(line, "Unexpected extra text in #shell line")
	}
	if c.opt.Shell == nil {
		return c.inputError(line, &cause{errors.Join(ErrCpp, ErrShell), "Cannot run the command of #shell: " + ErrShell.Error()})
	}
	rc, err := c.opt.Shell(string(command))
	if err != nil {
		return c.inputError(line, &cause{errors.Join(ErrCpp, err), "Cannot open pipe for #shell: " + err.Error()})
	}
	c.push(newInput("<shell>", rc, c.spent))
	return nil
}

// name returns the macro's name at the start of rest, and the text after it. Mistakes
// in control lines are reported in skipped branches, too.
func (c *cpp) name(line, rest []byte) (name string, after []byte, err error) {
	n := macroName(rest)
	switch {
	case len(rest) == 0:
		return "", nil, c.errorf(line, "Missing macro name")
	case n == 0 || n < len(rest) && !isBlank(rest[n]):
		return "", nil, c.errorf(line, "Illegal character in macro name")
	}
	return string(rest[:n]), bytes.TrimLeft(rest[n:], blanks), nil
}

// alone is name for a control line without text after the name.
func (c *cpp) alone(line, rest []byte) (string, error) {
	name, rest, err := c.name(line, rest)
	if err == nil {
		err = c.nothing(line, rest)
	}
	return name, err
}

func (c *cpp) nothing(line, rest []byte) error {
	if len(rest) > 0 {
		return c.errorf(line, "Unexpected extra text in a control line")
	}
	return nil
}

func (c *cpp) define(line, rest []byte) error {
	name, rest, err := c.name(line, rest)
	if err != nil {
		return err
	}
	var value string
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
		quoted, after, ok := bytes.Cut(rest[1:], rest[:1])
		if !ok {
			return c.errorf(line, "Unterminated value string in #define")
		}
		value, rest = string(quoted), after
	} else {
		n := len(rest)
		if i := bytes.IndexAny(rest, blanks); i >= 0 {
			n = i
		}
		value, rest = string(rest[:n]), rest[n:]
	}
	if err := c.nothing(line, bytes.TrimLeft(rest, blanks)); err != nil || c.branch == skipped {
		return err
	}
	if _, ok := c.macros[name]; ok {
		return c.errorf(line, "Macro redefinition")
	}
	c.macros[name] = value
	return nil
}

func (c *cpp) undef(line, rest []byte) error {
	name, err := c.alone(line, rest)
	if err == nil && c.branch != skipped {
		delete(c.macros, name)
	}
	return err
}

func (c *cpp) ifdef(line, rest []byte) error  { return c.begin(line, rest, true) }
func (c *cpp) ifndef(line, rest []byte) error { return c.begin(line, rest, false) }

func (c *cpp) begin(line, rest []byte, want bool) error {
	name, err := c.alone(line, rest)
	if err != nil {
		return err
	}
	if c.branch != outside {
		return c.errorf(line, "Nested #ifdef or #ifndef")
	}
	c.branch = skipped
	if _, ok := c.macros[name]; ok == want {
		c.branch = taken
	}
	c.ifLine = c.stack[len(c.stack)-1].line
	return nil
}

// flip executes #else. A second #else undoes the first.
func (c *cpp) flip(line, rest []byte) error {
	if err := c.nothing(line, rest); err != nil {
		return err
	}
	switch c.branch {
	case outside:
		return c.errorf(line, "No matching #ifdef or #ifndef for #else")
	case taken:
		c.branch = skipped
	case skipped:
		c.branch = taken
	}
	return nil
}

func (c *cpp) endif(line, rest []byte) error {
	if err := c.nothing(line, rest); err != nil {
		return err
	}
	if c.branch == outside {
		return c.errorf(line, "No matching #ifdef or #ifndef for #endif")
	}
	c.branch = outside
	return nil
}
