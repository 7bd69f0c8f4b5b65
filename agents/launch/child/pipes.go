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
// They are read through Go's poller, or directly: then the thread that reads
// waits itself, which is quicker where nobody else has anything to do.
type Pipes struct {
	w  *os.File
	in int // what is read directly, or -1

	mu     sync.Mutex // held to change r, and while in is read
	r      *os.File   // the same pipe in the poller; nil while it is read directly
	closed bool
}

// Direct says how the pipe is read from now on, by [Pipes.ReadDirect] or not,
// and reports whether that is possible. Nobody must be reading.
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

// ReadDirect reads what is there, and waits for it for some time. If nothing has
// come it returns 0 and EAGAIN.
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

// SyscallReadConn gives access to the pipe that Read reads from, until Direct is
// called.
func (p *Pipes) SyscallReadConn() (syscall.RawConn, error) {
	if r := p.reader(); r != nil {
		return r.SyscallConn()
	}
	return nil, os.ErrClosed
}

// FDs reports the descriptors that Read and Write use, for messages only.
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

// growPipe gives a pipe room for a large answer, so that a child writes it at once
// and not in turns with us. It takes memory only for what is in it. A user who
// is not root and has many pipes is refused (pipe(7), user-pages-soft), and
// does without.
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

// NewPipes returns the pipes of a child, and owns them: r is what the child
// writes to, w what it reads. They may have come from another process.
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

// Files returns the ends of ours, for NewPipes in another process.
func (p *Pipes) Files() []*os.File { return []*os.File{p.r, p.w} }
