package wire

import "syscall"

// A Putter writes without waiting. It is used by one goroutine at a time, and
// allocates nothing.
type Putter struct {
	raw  syscall.RawConn
	try  func(fd uintptr) bool       // made once: a closure a write would cost memory
	send func(b []byte) (int, error) // in place of raw
	told bool                        // writes are announced

	b   []byte // what is left to write
	err error
}

// atOnce is how many bytes are copied into the kernel, or out of it, before
// others can stop the goroutine that does it.
const atOnce = 256 << 10

// Init makes p write to raw.
func (p *Putter) Init(raw syscall.RawConn) {
	p.raw, p.send = raw, nil
	p.try = func(fd uintptr) bool {
		p.put(func(b []byte) (int, error) {
			if p.told {
				return write(fd, b)
			}
			return WriteNow(fd, b)
		})
		return true
	}
}

// Announce has the scheduler told of each write to raw, see [ReadNow].
func (p *Putter) Announce() { p.told = true }

// Send makes p write with a function, which does not wait.
func (p *Putter) Send(f func(b []byte) (int, error)) { p.send = f }

func (p *Putter) put(write func([]byte) (int, error)) {
	for len(p.b) > 0 {
		n, err := write(p.b[:min(len(p.b), atOnce)])
		p.b = p.b[n:]
		if err != nil {
			if err != syscall.EAGAIN {
				p.err = err
			}
			break
		}
	}
}

// Write returns what of b could not be written at once.
func (p *Putter) Write(b []byte) (rest []byte, err error) {
	p.b, p.err = b, nil
	if p.send != nil {
		p.put(p.send)
	} else {
		err = p.raw.Write(p.try)
	}
	rest = p.b
	p.b = nil
	if p.err != nil {
		err = p.err
	}
	return rest, err
}
