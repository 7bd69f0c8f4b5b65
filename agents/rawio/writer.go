package rawio

import "syscall"

// A NonblockWriter writes without waiting. It is used by one goroutine at a time, and
// allocates nothing.
type NonblockWriter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool       // made once: a closure a write would cost memory
	send func(b []byte) (int, error) // in place of raw
	told bool                        // writes are announced

	b   []byte // what is left to write
	err error
}

// MaxSyscallBytes is how many bytes are copied into the kernel, or out of it, before
// others can stop the goroutine that does it.
const MaxSyscallBytes = 256 << 10

// Init makes w write to raw.
func (w *NonblockWriter) Init(raw syscall.RawConn) {
	w.raw, w.send = raw, nil
	w.try = func(fd uintptr) bool {
		w.put(func(b []byte) (int, error) {
			if w.told {
				return write(fd, b)
			}
			return Write(fd, b)
		})
		return true
	}
}

// Announce has the scheduler told of each write to raw, see [Read].
func (w *NonblockWriter) Announce() { w.told = true }

// Send makes w write with a function, which does not wait.
func (w *NonblockWriter) Send(f func(b []byte) (int, error)) { w.send = f }

func (w *NonblockWriter) put(write func([]byte) (int, error)) {
	for len(w.b) > 0 {
		n, err := write(w.b[:min(len(w.b), MaxSyscallBytes)])
		w.b = w.b[n:]
		if err != nil {
			if err != syscall.EAGAIN {
				w.err = err
			}
			break
		}
	}
}

// Write returns what of b could not be written at once.
func (w *NonblockWriter) Write(b []byte) (rest []byte, err error) {
	w.b, w.err = b, nil
	if w.send != nil {
		w.put(w.send)
	} else {
		err = w.raw.Write(w.try)
	}
	rest = w.b
	w.b = nil
	if w.err != nil {
		err = w.err
	}
	return rest, err
}
