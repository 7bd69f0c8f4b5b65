package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// A process is an instance; with threads it may be one of them.
type process struct {
	*processIndom
	id       int32
	lastSeen uint64 // when it was last there
	name     string // of the instance; "" is not known yet
	psargs   string
	readAs   int // the user that these two were read as
	records  [numFormats]*record
}

// record returns what a file of the process has at the moment.
func (p *process) record(i int) *record {
	r := p.records[i]
	if r == nil {
		r = new(record)
		p.records[i] = r
	}
	if r.request != p.tree.request {
		r.request = p.tree.request
		r.reset(formats[i].fields)
		r.err = p.load(&formats[i], r)
		if cap(r.text) > maxKeptText {
			p.tree.largeRecords = append(p.tree.largeRecords, r)
		}
	}
	return r
}

// maxKeptText is how much text a record has between requests, in bytes. Environments
// and maps may have a megabyte each, and processes that share it in memory are
// cheap.
const maxKeptText = 4096

// releaseLarge lets go of what is large in records, at the end of a request.
func (t *tree) releaseLarge() {
	for _, r := range t.largeRecords {
		*r = record{nums: r.nums}
	}
	clear(t.largeRecords)
	t.largeRecords = t.largeRecords[:0]
}

func (p *process) load(f *format, r *record) error {
	if f.private && p.tree.hidesPrivate(p) {
		return nil
	}
	if f.read != nil {
		return p.clientError(f.read(p, r))
	}
	b, err := p.path(f.file).Text(maxFile)
	if p.threads && errors.Is(err, fs.ErrNotExist) {
		b, err = p.tree.Path("/proc/").Num(p.id).Str("/").Str(f.file).Text(maxFile)
	}
	switch {
	case f.optional && errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return p.clientError(err)
	case len(b) > 0:
		f.parse(r, b)
		r.ok = true
	case f.mayBeEmpty:
		r.present, r.ok = 1<<f.fields-1, true
	}
	return nil
}

// path starts the path of a file of the process. That of a thread has the numbers
// of the thread alone, not those of its process.
func (p *process) path(file string) *sysfile.Reader {
	r := p.tree.Path("/proc/").Num(p.id)
	if p.threads {
		r.Str("/task/").Num(p.id)
	}
	return r.Str("/").Str(file)
}

// clientError returns what a client sees of err. What may not be read is not
// there, and a process that has ended is no error; what the kernel does not have is.
func (p *process) clientError(err error) error {
	switch {
	case err == nil, errors.Is(err, fs.ErrPermission), err == syscall.EINVAL, err == syscall.ESRCH:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if p.tree.Path("/proc/").Num(p.id).Exists() {
			return pdu.ErrnoAppVersion
		}
		return nil
	}
	return err
}

// withRecord makes a FetchFunc of one that gets the record of a file.
func withRecord(i int, f func(v *pmda.Value, p *process, r *record)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		p := v.Data().(*process)
		r := p.record(i)
		if r.ok {
			f(v, p, r)
		}
		return r.err
	}
}

// unsigned is the value of a field that is a number, with a sign or without.
func unsigned(i, field int) pmda.FetchFunc {
	return withRecord(i, func(v *pmda.Value, _ *process, r *record) {
		if r.has(field) {
			v.Uint(r.nums[field])
		}
	})
}

// signed is a field that may be less than 0.
func signed(i, field int) pmda.FetchFunc {
	return withRecord(i, func(v *pmda.Value, _ *process, r *record) {
		if r.has(field) {
			v.Int(int64(r.nums[field]))
		}
	})
}

// text is a field that is text.
func text(i, field int) pmda.FetchFunc {
	return withRecord(i, func(v *pmda.Value, _ *process, r *record) {
		if r.has(field) {
			v.Bytes(r.string(field))
		}
	})
}

// textOrEmpty is text of a file: "" if the file cannot be read.
func textOrEmpty(i int) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		v.Bytes(v.Data().(*process).record(i).string(0))
		return nil
	}
}

// instanceName returns the name of the instance, which is made when it is first
// asked for, and stays: the number and the command up to its first blank.
func (p *process) instanceName() string {
	p.readCommand()
	return p.name
}

// args returns the command line.
func (p *process) args() string {
	p.readCommand()
	return p.psargs
}

// maxArgs is how many bytes of a command line are kept, with the number before
// it and a NUL behind it.
const maxArgs = 4096

// readCommand reads the command line, once for each user in a row: where /proc is
// mounted with hidepid=1 it is not for all.
func (p *process) readCommand() {
	if p.name != "" && p.readAs == p.tree.effectiveUID {
		return
	}
	p.readAs = p.tree.effectiveUID
	prefix := fmt.Sprintf("%06d ", p.id)
	b, err := p.tree.Path("/proc/").Num(p.id).Str("/cmdline").Text(maxArgs - len(prefix) - 1)
	if err == nil && len(b) > 0 {
		p.psargs = string(cleanArgs(b))
	} else if b, err := p.tree.Path("/proc/").Num(p.id).Str("/status").Text(maxArgs); err == nil && bytes.HasPrefix(b, []byte("Name:\t")) {
		// A thread of the kernel.
		line, _ := sysfile.CutLine(b)
		p.psargs = "(" + string(line[6:]) + ")"
	} else {
		p.psargs = "<exiting>"
	}
	first, _, _ := strings.Cut(p.psargs, " ")
	p.name = prefix + first
}

// cleanArgs makes text for a terminal of /proc/PID/cmdline: a blank for each NUL
// and control character, none at the end, and no escape sequences.
//
// C differs: before PCP 7.2 only NULs are replaced.
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
		case b[0] == '[': // up to a byte from @ to ~
			n := bytes.IndexFunc(b[1:], func(c rune) bool { return c >= '@' && c <= '~' })
			if n < 0 {
				return to
			}
			b = b[n+2:]
		case b[0] == ']': // up to BEL or ESC \
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
