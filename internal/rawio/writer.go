package rawio

import "syscall"

// A NonblockWriter writes without waiting, to a descriptor of a kind that [Read] may
// read. It is used by one goroutine at a time, and allocates nothing.
//
// Its calls are unannounced: on a socket they only queue. They are announced for a
// Unix socket that may hold descriptors. Before Linux 6.8 such a write may run the
// garbage collector of sockets in flight, which closes sockets that other programs
// have left.
type NonblockWriter struct {
	Rights bool // the stream is a Unix socket in which descriptors may be queued

	raw     syscall.RawConn
	attempt func(fd uintptr) bool // made once: a closure for each write would be an allocation
	socket  uintptr               // used if raw is nil

	rest []byte // what is left to write
	err  error
}

const sendFlags = syscall.MSG_DONTWAIT | syscall.MSG_NOSIGNAL

// Init makes w write to raw with write(2). raw has O_NONBLOCK.
func (w *NonblockWriter) Init(raw syscall.RawConn) {
	w.raw = raw
	if w.attempt != nil {
		return
	}
	w.attempt = func(fd uintptr) bool {
		w.write(syscall.SYS_WRITE, fd, 0)
		return true
	}
}

// InitSocket makes w write to a socket with send(2) and MSG_DONTWAIT. The socket may
// have O_NONBLOCK or not.
func (w *NonblockWriter) InitSocket(fd uintptr) { w.raw, w.socket = nil, fd }

// write makes the system call trap until all is written or no more can be written.
func (w *NonblockWriter) write(trap, fd, flags uintptr) {
	syscallFunc := unannounced
	if w.Rights {
		syscallFunc = announced
	}
	for len(w.rest) > 0 {
		n, err := syscallFunc(trap, fd, w.rest[:min(len(w.rest), MaxSyscallBytes)], flags)
		w.rest = w.rest[n:]
		if err != nil {
			if err != syscall.EAGAIN {
				w.err = err
			}
			break
		}
	}
}

// WriteFD is Write to fd, for a function that Write of the RawConn calls.
func (w *NonblockWriter) WriteFD(fd uintptr, b []byte) (rest []byte, err error) {
	w.rest, w.err = b, nil
	w.write(syscall.SYS_WRITE, fd, 0)
	rest = w.rest
	w.rest = nil
	return rest, w.err
}

// Write writes as much of b as is possible without waiting, and returns the rest.
func (w *NonblockWriter) Write(b []byte) (rest []byte, err error) {
	w.rest, w.err = b, nil
	if w.raw == nil {
		w.write(sysSendto, w.socket, sendFlags)
	} else {
		err = w.raw.Write(w.attempt)
	}
	rest = w.rest
	w.rest = nil
	if w.err != nil {
		err = w.err
	}
	return rest, err
}
