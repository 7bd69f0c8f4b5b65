package rawio

import (
	"io"
	"syscall"
)

// A NonblockReader is an io.Reader that reads a RawConn with [Read] or with
// [ReadNoRights]. It is used by one goroutine at a time, and allocates nothing.
type NonblockReader struct {
	Rights bool // the RawConn is a Unix socket in which descriptors may be queued

	raw     syscall.RawConn
	attempt func(fd uintptr) bool // made once: a closure for each read would be an allocation

	buf []byte
	n   int
	err error
}

// Init makes r read from raw, which has O_NONBLOCK.
func (r *NonblockReader) Init(raw syscall.RawConn) {
	r.raw = raw
	if r.attempt != nil {
		return
	}
	r.attempt = func(fd uintptr) bool {
		if r.Rights {
			r.n, r.err = ReadNoRights(fd, r.buf)
		} else {
			r.n, r.err = Read(fd, r.buf)
		}
		return r.err != syscall.EAGAIN
	}
}

// Read waits for input until the read deadline. b must not be empty.
func (r *NonblockReader) Read(b []byte) (int, error) {
	r.buf, r.n, r.err = b[:min(len(b), MaxSyscallBytes)], 0, nil
	err := r.raw.Read(r.attempt)
	r.buf = nil
	switch {
	case err != nil:
		return 0, err
	case r.err == nil && r.n == 0:
		return 0, io.EOF
	}
	return r.n, r.err
}
