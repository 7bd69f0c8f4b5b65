package wire

import "syscall"

// A Putter writes without waiting. It is used by one goroutine at a time, and
// allocates nothing.
type Putter struct {
	raw syscall.RawConn
	fd  int                   // of a socket, in place of raw
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
		p.put(fd, WriteNow)
		return true
	}
}

// Direct makes p write to a socket, whether that blocks or not.
func (p *Putter) Direct(fd int) { p.raw, p.fd = nil, fd }

func (p *Putter) put(fd uintptr, write func(uintptr, []byte) (int, error)) {
	for len(p.b) > 0 {
		n, err := write(fd, p.b[:min(len(p.b), atOnce)])
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
	if p.raw != nil {
		err = p.raw.Write(p.try)
	} else {
		p.put(uintptr(p.fd), SendNow)
	}
	rest = p.b
	p.b = nil
	if p.err != nil {
		err = p.err
	}
	return rest, err
}
