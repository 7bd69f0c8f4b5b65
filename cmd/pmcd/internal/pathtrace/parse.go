// Package pathtrace finds, in a trace of strace(1), what root does by a path on which another user may
// have put a link. It is for tests.
package pathtrace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options are those of strace for a trace that Read understands. -o PREFIX follows.
const Options = "-f -ff -qq -y -ttt -s 4096 -e signal=none " +
	"-e trace=%file,bind,fchdir,fchmod,fchown,ftruncate,fsetxattr,setuid,setreuid,setresuid,setfsuid,clone,clone3,fork,vfork"

// A Call is a line of a trace: a system call of a thread.
type Call struct {
	TID  int
	Time string
	Name string
	Args []string
	Ret  string // what follows the equals sign
}

func (c Call) String() string {
	return fmt.Sprintf("%d %s(%s) = %s", c.TID, c.Name, strings.Join(c.Args, ", "), c.Ret)
}

// ok reports whether the call has succeeded.
func (c Call) ok() bool { return c.Ret != "" && c.Ret[0] != '-' && c.Ret[0] != '?' }

// Read returns the calls in the files of a trace, PREFIX.TID, in the order in which they began.
func Read(prefix string) ([]Call, error) {
	files, err := filepath.Glob(prefix + ".*")
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, file := range files {
		tid, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(file), "."))
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if c, ok := parse(tid, strings.TrimSuffix(line, "\n")); ok {
				calls = append(calls, c)
			}
		}
	}
	slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(a.Time, b.Time) })
	return calls, nil
}

// parse returns the call in a line, and false for one about the end of a process or the like.
func parse(tid int, line string) (Call, bool) {
	at, rest, ok := strings.Cut(line, " ")
	name, rest, ok2 := strings.Cut(rest, "(")
	if !ok || !ok2 || strings.ContainsAny(name, " +<") {
		return Call{}, false
	}
	c := Call{TID: tid, Time: at, Name: name}
	args, rest := splitArgs(rest)
	c.Args = args
	if _, ret, ok := strings.Cut(rest, "= "); ok {
		c.Ret = ret
	}
	return c, true
}

// splitArgs returns the arguments of a call, and what follows the closing parenthesis.
func splitArgs(text string) (args []string, rest string) {
	depth, start := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '<' && i > 0 && (text[i-1] >= '0' && text[i-1] <= '9' || text[i-1] == 'D'): // the path of a descriptor
			if n := strings.IndexByte(text[i:], '>'); n > 0 {
				i += n
			}
		case c == '(' || c == '[' || c == '{':
			depth++
		case (c == ')' || c == ']' || c == '}') && depth > 0:
			depth--
		case c == ')':
			if arg := strings.TrimSpace(text[start:i]); arg != "" {
				args = append(args, arg)
			}
			return args, text[i+1:]
		case c == ',' && depth == 0:
			args = append(args, strings.TrimSpace(text[start:i]))
			start = i + 1
		}
	}
	return append(args, strings.TrimSpace(text[min(start, len(text)):])), ""
}

// arg returns an argument, "" if there is none.
func (c Call) arg(i int) string {
	if i < 0 || i >= len(c.Args) {
		return ""
	}
	return c.Args[i]
}

// text returns an argument that is a string, and false if it is something else, such as NULL.
func (c Call) text(i int) (string, bool) {
	s, err := strconv.Unquote(strings.TrimSuffix(c.arg(i), "..."))
	if err != nil {
		s = strings.Trim(c.arg(i), `"`)
	}
	return s, strings.HasPrefix(c.arg(i), `"`)
}

// described returns the path that strace gives a descriptor: 3</etc>, AT_FDCWD</root>.
func described(fd string) string {
	_, path, ok := strings.Cut(fd, "<")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(strings.TrimSuffix(path, ">"), ">(deleted)")
}
