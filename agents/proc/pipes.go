package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pipes are the two pipes to a child, as one connection.
type Pipes struct {
	r, w  *os.File
	close sync.Once
	err   error // of Close
}

// Read reads what the child writes to its standard output.
func (p *Pipes) Read(b []byte) (int, error) { return p.r.Read(b) }

// Write writes to the standard input of the child.
func (p *Pipes) Write(b []byte) (int, error) { return p.w.Write(b) }

// SetReadDeadline sets the deadline for Read.
func (p *Pipes) SetReadDeadline(t time.Time) error { return p.r.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline for Write.
func (p *Pipes) SetWriteDeadline(t time.Time) error { return p.w.SetWriteDeadline(t) }

// SyscallConn gives access to the pipe that Write writes to.
func (p *Pipes) SyscallConn() (syscall.RawConn, error) { return p.w.SyscallConn() }

// SyscallReadConn gives access to the pipe that Read reads from.
func (p *Pipes) SyscallReadConn() (syscall.RawConn, error) { return p.r.SyscallConn() }

// FDs reports the descriptors that Read and Write use, for messages only.
func (p *Pipes) FDs() (in, out int) { return fd(p.r), fd(p.w) }

func fd(f *os.File) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1
	}
	n = -1
	raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}

// widen gives a pipe room for a large answer, so that a child writes it at once
// and not in turns with us. It takes memory only for what is in it. A user who
// is not root and has many pipes is refused (pipe(7), user-pages-soft), and
// does without.
func widen(f *os.File) {
	const size = 256 << 10
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

// Close closes both pipes.
func (p *Pipes) Close() error {
	p.close.Do(func() { p.err = errors.Join(p.w.Close(), p.r.Close()) })
	return p.err
}

// NewPipes returns the pipes of a child of another process, from which they
// were received: r is what the child writes to, w what it reads.
func NewPipes(r, w *os.File) *Pipes { return &Pipes{r: r, w: w} }

// Files returns the ends of ours, for NewPipes in another process.
func (p *Pipes) Files() []*os.File { return []*os.File{p.r, p.w} }
