package wire

import "syscall"

// A Putter writes without waiting. It is used by one goroutine at a time, and
// allocates nothing.
type Putter struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once: a closure a write would cost memory

	b   []byte // what is left to write
	err error
}

// atOnce is how many bytes are copied into the kernel, or out of it, before
// others can stop the goroutine that does it.
const atOnce = 256 << 10

// Init makes p write to raw.
func (p *Putter) Init(raw syscall.RawConn) {
	p.raw = raw
	p.try = func(fd uintptr) bool {
		for len(p.b) > 0 {
			n, err := WriteNow(fd, p.b[:min(len(p.b), atOnce)])
			p.b = p.b[n:]
			if err != nil {
				if err != syscall.EAGAIN {
					p.err = err
				}
				break
			}
		}
		return true
	}
}

// Write returns what of b could not be written at once.
func (p *Putter) Write(b []byte) (rest []byte, err error) {
	p.b, p.err = b, nil
	err = p.raw.Write(p.try)
	rest = p.b
	p.b = nil
	if p.err != nil {
		err = p.err
	}
	return rest, err
}
