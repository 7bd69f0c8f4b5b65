package wire

import (
	"io"
	"syscall"
)

// A getter is an io.Reader of what a RawConn stands for. It is used by one
// goroutine at a time, and allocates nothing.
type getter struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once: a closure a read would cost memory

	b   []byte
	n   int
	err error
}

func (g *getter) init(raw syscall.RawConn) {
	g.raw = raw
	if g.try != nil {
		return
	}
	g.try = func(fd uintptr) bool {
		g.n, g.err = ReadNow(fd, g.b)
		return g.err != syscall.EAGAIN
	}
}

// Read waits for input, until the deadline for reading. b must not be empty.
func (g *getter) Read(b []byte) (int, error) {
	g.b, g.n, g.err = b[:min(len(b), atOnce)], 0, nil
	err := g.raw.Read(g.try)
	g.b = nil
	switch {
	case err != nil:
		return 0, err
	case g.err == nil && g.n == 0:
		return 0, io.EOF
	}
	return g.n, g.err
}
