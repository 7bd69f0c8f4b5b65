package child

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Pipes are the two pipes to a child, as one connection.
//
// They are read through Go's poller or directly. A direct read blocks its thread,
// which is faster when the program has nothing else to do.
type Pipes struct {
	w  *os.File
	in int // the descriptor for direct reads, or -1

	mu     sync.Mutex // held to change r, and during a direct read
	r      *os.File   // the same pipe in the poller; nil while direct reads are on
	closed bool
}

// Direct switches direct reads on or off: the pipe is then read by
// [Pipes.ReadDirect] or by [Pipes.Read]. It reports whether that is possible. It
// must not be called during a read.
func (p *Pipes) Direct(on bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed || p.in < 0:
		return false
	case on == (p.r == nil):
	case on:
		p.r.Close() // takes it out of the poller
		p.r = nil
	default:
		fd, err := unix.FcntlInt(uintptr(p.in), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return false
		}
		p.r = os.NewFile(uintptr(fd), "|0")
	}
	return true
}

// ReadDirect reads what is available, and waits for it for at most wait. If
// nothing has arrived by then it returns 0 and EAGAIN.
func (p *Pipes) ReadDirect(b []byte, wait time.Duration) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, os.ErrClosed
	}
	t := unix.NsecToTimespec(int64(wait))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.in), Events: unix.POLLIN}}, &t, nil)
	switch {
	case err == unix.EINTR, err == nil && n == 0:
		return 0, unix.EAGAIN
	case err != nil:
		return 0, err
	}
	switch n, err = unix.Read(p.in, b); {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Read reads what the child writes to its standard output.
func (p *Pipes) Read(b []byte) (int, error) {
	if r := p.reader(); r != nil {
		return r.Read(b)
	}
	return 0, os.ErrClosed
}

func (p *Pipes) reader() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.r
}

// Write writes to the standard input of the child.
func (p *Pipes) Write(b []byte) (int, error) { return p.w.Write(b) }

// SetReadDeadline sets the deadline for Read.
func (p *Pipes) SetReadDeadline(t time.Time) error {
	if r := p.reader(); r != nil {
		return r.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline sets the deadline for Write.
func (p *Pipes) SetWriteDeadline(t time.Time) error { return p.w.SetWriteDeadline(t) }

// SyscallConn gives access to the pipe that Write writes to.
func (p *Pipes) SyscallConn() (syscall.RawConn, error) { return p.w.SyscallConn() }

// SyscallReadConn gives access to the pipe that Read reads from. The result is
// valid until Direct is called.
func (p *Pipes) SyscallReadConn() (syscall.RawConn, error) {
	if r := p.reader(); r != nil {
		return r.SyscallConn()
	}
	return nil, os.ErrClosed
}

// FDs returns the descriptors that Read and Write use, for log messages only.
func (p *Pipes) FDs() (in, out int) {
	if p.in >= 0 {
		return p.in, fd(p.w)
	}
	return fd(p.reader()), fd(p.w)
}

func fd(f *os.File) (n int) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1
	}
	n = -1
	raw.Control(func(fd uintptr) { n = int(fd) })
	return n
}

// growPipe enlarges the buffer of a pipe, so that a child can write a large
// reply at once and need not wait until this process has read part of it. The
// kernel allocates memory only for the data in the pipe. It refuses the request
// of a user other than root who has many pipes (pipe(7), user-pages-soft); then
// the pipe keeps its size.
func growPipe(f *os.File) {
	const size = 256 << 10
	if raw, err := f.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
	}
}

// Close closes both pipes.
func (p *Pipes) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	err := p.w.Close()
	if p.r != nil {
		err = errors.Join(err, p.r.Close())
	}
	if p.in >= 0 {
		err = errors.Join(err, unix.Close(p.in))
	}
	return err
}

// MakePipes makes two pipes, and returns their ends for pmcd and those for an agent: its
// standard input and output.
func MakePipes() (p *Pipes, in, out *os.File, err error) {
	in, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	r, out, err := os.Pipe()
	if err != nil {
		in.Close()
		w.Close()
		return nil, nil, nil, err
	}
	growPipe(r)
	return NewPipes(r, w), in, out, nil
}

// NewPipes returns the Pipes of a child. The child writes to r and reads from w,
// which Pipes then owns. They may have been received from another process.
func NewPipes(r, w *os.File) *Pipes {
	p := &Pipes{r: r, w: w, in: -1}
	raw, err := r.SyscallConn()
	if err != nil {
		return p
	}
	raw.Control(func(fd uintptr) {
		if p.in, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			p.in = -1
		}
	})
	return p
}

// Files returns the ends of this process, for NewPipes in another process.
func (p *Pipes) Files() []*os.File { return []*os.File{p.r, p.w} }
