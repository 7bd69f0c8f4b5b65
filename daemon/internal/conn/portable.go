package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// A portableLoop is the portable implementation: net.Listener, and a goroutine for
// each connection. It uses no system call that is not in package net, never parks a
// connection, and has no blocking-read mode.
//
// On Linux before 6.16 it does not protect pmcd from clients that send descriptors.
type portableLoop struct {
	a         *Acceptor
	listeners []*portableListener
}

type portableListener struct {
	net.Listener
	unixPath string
	probes   chan chan struct{}
}

func newPortableLoop(a *Acceptor, ls *Listeners) *portableLoop {
	p := &portableLoop{a: a}
	for _, ln := range ls.all {
		p.listeners = append(p.listeners, &portableListener{ln.Listener, ls.unix, make(chan chan struct{}, 1)})
	}
	return p
}

func (p *portableLoop) stats(*Stats) {}

func (p *portableLoop) wait(time.Duration) {}

func (p *portableLoop) run(ctx context.Context) error {
	var loops sync.WaitGroup
	for _, ln := range p.listeners {
		loops.Go(func() {
			defer context.AfterFunc(ctx, ln.wake)()
			p.accept(ctx, ln)
		})
	}
	<-ctx.Done()
	loops.Wait()
	return nil
}

// wake makes accept look at ctx and at probes.
func (ln *portableListener) wake() { ln.setDeadline(past) }

func (ln *portableListener) setDeadline(t time.Time) {
	ln.Listener.(interface{ SetDeadline(time.Time) error }).SetDeadline(t)
}

func (p *portableLoop) probe(ctx context.Context) error {
	for _, ln := range p.listeners {
		done := make(chan struct{})
		select {
		case ln.probes <- done:
		case <-ctx.Done():
			return ctx.Err()
		}
		ln.wake()
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// accept accepts connections at ln until ctx ends.
func (p *portableLoop) accept(ctx context.Context, ln *portableListener) {
	var pause pause
	for ctx.Err() == nil {
		select {
		case done := <-ln.probes: // its wake may be yet to come
			close(done)
		default:
		}
		var c net.Conn
		var err error
		if p.a.full() {
			p.a.warnFull()
		} else if c, err = ln.Accept(); err == nil {
			pause = 0
			p.accepted(c, ln.unixPath)
			continue
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			ln.setDeadline(time.Time{}) // first: what comes after that wakes again
			continue
		} else if errors.Is(err, syscall.ECONNABORTED) {
			continue
		} else {
			p.a.warnAccept("%v", acceptError(err))
		}
		timer := time.NewTimer(pause.next())
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// acceptError returns the error of accept(2) alone.
func acceptError(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// accepted starts the session of a connection.
func (p *portableLoop) accepted(nc net.Conn, unixPath string) {
	p.a.open.Add(1)
	p.a.tasks.Add(1)
	c := &portableConn{a: p.a, conn: nc.(streamConn)}
	if err := c.identify(unixPath); err != nil {
		p.a.warn("peer", "cannot tell who connected: %v", err)
		c.Close(nil)
		return
	}
	session, greeting := p.a.handler.Accept(c)
	go func() {
		if len(greeting) > 0 {
			if _, err := c.Write(greeting); err != nil {
				c.Interrupt(io.EOF)
			}
		}
		session.Serve()
	}()
}

// A portableConn is a Conn by package net.
type portableConn struct {
	interrupter
	a    *Acceptor
	conn streamConn
	peer Peer

	// The following belong to the goroutine that serves the connection.
	first    [64]byte // for Wait, which has to read to find out that there is input
	in       []byte   // of first, not read yet
	readErr  error
	deadline time.Time
}

// A streamConn is a TCP or a Unix socket.
type streamConn interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// An interrupter holds the error of Interrupt.
type interrupter struct{ err atomic.Pointer[error] }

// interrupt sets the error. It reports whether this is the first one.
func (i *interrupter) interrupt(err error) bool { return i.err.CompareAndSwap(nil, &err) }

// interrupted returns the error, or nil.
func (i *interrupter) interrupted() error {
	if err := i.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *portableConn) identify(unixPath string) error {
	if _, ok := c.conn.(*net.UnixConn); ok {
		c.peer.Unix, c.peer.Path = true, unixPath
		return c.peer.setCredentials(c.FD())
	}
	addr, err := netip.ParseAddrPort(c.conn.RemoteAddr().String())
	c.peer.Addr = addr.Addr().Unmap()
	return err
}

func (c *portableConn) Peer() Peer      { return c.peer }
func (c *portableConn) FD() int         { return fdOf(c.conn) }
func (c *portableConn) Exclusive() bool { return false }

func (c *portableConn) Interrupt(err error) {
	if c.interrupt(err) {
		c.conn.SetReadDeadline(past)
	}
}

func (c *portableConn) Abort() {
	c.conn.CloseRead()
	c.conn.CloseWrite()
}

func (c *portableConn) SetReadDeadline(t time.Time) {
	c.deadline = t
	if errors.Is(c.readErr, os.ErrDeadlineExceeded) {
		c.readErr = nil
	}
}

func (c *portableConn) Wait() error {
	c.SetReadDeadline(time.Time{})
	for c.interrupted() == nil && len(c.in) == 0 && c.readErr == nil {
		c.in = c.first[:c.read(c.first[:])]
	}
	switch {
	case c.interrupted() != nil:
		return c.interrupted()
	case len(c.in) > 0:
		return nil
	}
	return io.EOF
}

func (c *portableConn) Read(b []byte) (int, error) {
	for c.interrupted() == nil && len(c.in) == 0 && c.readErr == nil && len(b) > 0 {
		if n := c.read(b); n > 0 {
			return n, nil
		}
	}
	if err := c.interrupted(); err != nil {
		return 0, err
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	if n > 0 {
		return n, nil
	}
	return 0, c.readErr
}

// read reads once. An error of the stream is in readErr.
func (c *portableConn) read(b []byte) int {
	c.conn.SetReadDeadline(c.deadline)
	if c.interrupted() != nil { // its deadline may be the one that was replaced
		return 0
	}
	n, err := c.conn.Read(b)
	if err != nil && c.interrupted() == nil {
		c.readErr = err
	}
	return n
}

func (c *portableConn) Write(b []byte) (int, error) {
	if err := writeSlowly(c.conn, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *portableConn) Close(last []byte) {
	if last != nil {
		c.a.linger(c, last)
	}
	c.keepUnsent()
	c.conn.Close()
	c.a.open.Add(-1)
	c.a.tasks.Done()
}

func (c *portableConn) closeWrite() error { return c.conn.CloseWrite() }

// keepUnsent sets SO_LINGER, which is as the listening socket has it, to its
// default.
func (c *portableConn) keepUnsent() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		tcp.SetLinger(-1)
	}
}

func (c *portableConn) discard(deadline time.Time) error {
	var b [512]byte
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := c.conn.Read(b[:])
	return err
}
