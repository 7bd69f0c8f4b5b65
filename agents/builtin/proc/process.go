package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A process is an instance: a process, or a thread if threads are listed.
type process struct {
	*processIndom
	id       int32
	row      int    // in sheets, and in list before a process is removed from it
	lastSeen uint64 // number of the last list that it was in
	command
}

// A command is what is kept of a process between requests: the command line of the program that it
// runs.
type command struct {
	name   string // of the instance; "" is not known yet
	psargs string
	readAs int // the user as which they were read

	// Of the program. Another process that has the same number has another start, and exec
	// changes the stack. The kernel shows the stack only to users that may trace the process;
	// for others, and without a program, it is 0.
	start, stack uint64
}

// record returns the present contents of a file of the process. That of a format that is single
// is valid until the next call for the format.
func (p *process) record(i int) record {
	r := p.rowOf(i)
	if r.state[r.row] != unread {
		return r
	}
	p.load(i, r)
	if formats[i].together {
		for rest := p.wanted & together; rest != 0; rest &= rest - 1 {
			j := bits.TrailingZeros32(rest)
			if r := p.rowOf(j); r.state[r.row] == unread {
				p.load(j, r)
			}
		}
	}
	return r
}

// rowOf returns the row of the process in a sheet, which may be unread.
func (p *process) rowOf(i int) record {
	s, f := &p.sheets[i], &formats[i]
	switch {
	case f.single && (s.scan != p.scan || s.owner != p):
		s.owner = p
		s.begin(p.scan, 1, f.fields)
	case !f.single && s.scan != p.scan:
		s.begin(p.scan, p.rows, f.fields)
		s.unused = p.unused[i]
	}
	if f.single {
		return record{s, 0}
	}
	return record{s, p.row}
}

// load reads the file i.
func (p *process) load(i int, r record) {
	r.state[r.row] = absent
	if err := p.clientError(formats[i].kind, p.read(&formats[i], r)); err != nil {
		r.fail(err)
	}
}

func (p *process) read(f *format, r record) error {
	switch {
	case f.private && p.tree.hidesPrivate(p):
		return nil
	case f.read != nil:
		return f.read(p, r)
	}
	text := (*sysfile.Reader).Whole
	if f.pieces {
		text = (*sysfile.Reader).Text
	}
	b, err := text(p.path(f.file), maxFile)
	if p.threads && f.kind.Absent(err) {
		b, err = text(p.tree.Path("/proc/").Num(p.id).Str("/").Str(f.file), maxFile)
	}
	switch {
	case f.optional && f.kind.Absent(err):
	case err != nil:
		return err
	case len(b) > 0:
		f.parse(r, b)
		r.state[r.row] = filled
	case f.mayBeEmpty:
		r.fillZero(f.fields)
	}
	return nil
}

// path returns a reader for the path of a file of the process. If threads are
// listed the path is that of the thread, /proc/TID/task/TID: /proc/PID has the
// sums of all threads.
func (p *process) path(file string) *sysfile.Reader {
	r := p.tree.Path("/proc/").Num(p.id)
	if p.threads {
		r.Str("/task/").Num(p.id)
	}
	return r.Str("/").Str(file)
}

// clientError returns the error that a client gets for an error of a file. It is nil if
// the file may not be read or the process has ended: there is no value then. It is
// PM_ERR_APPVERSION for a file that the kernel does not have.
func (p *process) clientError(kind sysfile.Kind, err error) error {
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission):
		return nil
	case errors.Is(err, fs.ErrNotExist) && p.tree.Path("/proc/").Num(p.id).Exists():
		return pdu.ErrnoAppVersion
	case kind.Absent(err):
		return nil
	}
	return err
}

// withRecord returns a value that f sets from some fields of the record of a file, if it could
// be read.
func withRecord(i int, fields uint64, f func(v *pmda.Value, p *process, r record)) value {
	return value{i, fields, func(_ context.Context, v *pmda.Value) error {
		p := v.Data().(*process)
		r := p.record(i)
		if r.ok() {
			f(v, p, r)
		}
		return r.err()
	}}
}

// unsigned returns the value of a field that is a number not below 0.
func unsigned(i, field int) value {
	return withRecord(i, 1<<field, func(v *pmda.Value, _ *process, r record) {
		if r.has(field) {
			v.SetUint(r.num(field))
		}
	})
}

// signed returns the value of a field that may be below 0.
func signed(i, field int) value {
	return withRecord(i, 1<<field, func(v *pmda.Value, _ *process, r record) {
		if r.has(field) {
			v.SetInt(int64(r.num(field)))
		}
	})
}

// text returns the value of a text field.
func text(i, field int) value {
	return withRecord(i, 1<<field, func(v *pmda.Value, _ *process, r record) {
		if r.has(field) {
			v.SetBytes(r.string(field))
		}
	})
}

// textOrEmpty returns the value of a file that is one text. It is "" if the file cannot be read.
func textOrEmpty(i int) value {
	return value{i, 1, func(_ context.Context, v *pmda.Value) error {
		v.SetBytes(v.Data().(*process).record(i).string(0))
		return nil
	}}
}

// instanceName returns the name of the instance: the process id and the command up
// to its first blank.
func (p *process) instanceName() string {
	p.readCommand()
	return p.name
}

// args returns the command line.
func (p *process) args() string {
	p.readCommand()
	return p.psargs
}

// maxArgs is the largest size of a command line in bytes, together with the process
// id before it and a NUL after it.
const maxArgs = 4096

// readCommand reads the command line, unless the program is the one whose command line was last
// read, as the same user: if /proc is mounted with hidepid=1, not all users may read
// it. What a program writes over its command line is not seen, nor what it or the kernel
// changes in its name: workers of the kernel do so each second, and each name is an
// instance in archives. Reading the command line may block, reading stat does not.
//
// C differs: it keeps the command line until the process has ended and its number was
// not used in one request.
func (p *process) readCommand() {
	stat := p.record(formatStat)
	start, stack := stat.num(statStart), stat.num(statStack)
	same := !stat.has(statStart) || start == p.start && (stack == 0 || stack == p.stack)
	if p.name != "" && p.readAs == p.tree.effectiveUID && same {
		return
	}
	p.readAs, p.start, p.stack = p.tree.effectiveUID, start, stack
	prefix := fmt.Sprintf("%06d ", p.id)
	b, err := p.tree.Path("/proc/").Num(p.id).Str("/cmdline").Text(maxArgs - len(prefix) - 1)
	if err == nil && len(b) > 0 {
		p.psargs = string(cleanArgs(b))
	} else if b, err := p.tree.Path("/proc/").Num(p.id).Str("/status").Text(maxArgs); err == nil && bytes.HasPrefix(b, []byte("Name:\t")) {
		// A kernel thread, or a process without a command line, which chooses its name.
		line, _ := sysfile.CutLine(b)
		p.psargs = "(" + string(cleanArgs(line[6:])) + ")"
	} else {
		p.psargs = "<exiting>"
	}
	first, _, _ := strings.Cut(p.psargs, " ")
	p.name = prefix + first
}

// cleanArgs makes the contents of /proc/PID/cmdline, or a name, safe for a terminal. It replaces
// NULs and control characters by blanks, and removes NULs at the end and escape
// sequences.
//
// C differs: it does not change names, and before PCP 7.2 it replaces NULs only.
func cleanArgs(b []byte) []byte {
	const esc, bel = 0x1b, 0x07
	b = bytes.TrimRight(b, "\x00")
	to := b[:0]
	for len(b) > 0 {
		c := b[0]
		b = b[1:]
		switch {
		case c != esc && (c < ' ' || c == 0x7f):
			to = append(to, ' ')
		case c != esc:
			to = append(to, c)
		case len(b) == 0:
		case b[0] == '[': // CSI: ends with a byte from @ to ~
			n := bytes.IndexFunc(b[1:], func(c rune) bool { return c >= '@' && c <= '~' })
			if n < 0 {
				return to
			}
			b = b[n+2:]
		case b[0] == ']': // OSC: ends with BEL or ESC \
			n := bytes.IndexAny(b, "\x07\x1b")
			switch {
			case n < 0:
				return to
			case b[n] == bel:
				b = b[n+1:]
			case n+1 < len(b) && b[n+1] == '\\':
				b = b[n+2:]
			default:
				b = b[n:]
			}
		default:
			b = b[1:]
		}
	}
	return to
}
