package wire

import "syscall"

// A Putter writes without waiting. It is used by one goroutine at a time, and
// allocates nothing.
type Putter struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once: a closure a write would cost memory

	fd  int    // of a socket that blocks, else -1
	b   []byte // what is left to write
	err error
}

// atOnce is how many bytes are copied into the kernel, or out of it, before
// others can stop the goroutine that does it.
const atOnce = 256 << 10

// Init makes p write to raw.
func (p *Putter) Init(raw syscall.RawConn) {
	p.raw, p.fd = raw, -1
	p.try = func(fd uintptr) bool {
		for len(p.b) > 0 {
			n, err := p.write(fd, p.b[:min(len(p.b), atOnce)])
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

// Direct makes p write to a socket that blocks.
func (p *Putter) Direct(fd int) { p.fd = fd }

func (p *Putter) write(fd uintptr, b []byte) (int, error) {
	if p.fd >= 0 {
		return SendNow(fd, b)
	}
	return WriteNow(fd, b)
}

// Write returns what of b could not be written at once.
func (p *Putter) Write(b []byte) (rest []byte, err error) {
	p.b, p.err = b, nil
	if p.fd >= 0 {
		p.try(uintptr(p.fd))
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
