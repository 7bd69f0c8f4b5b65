package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

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
			p.a.notAccepted(p.a.fullText())
		} else if c, err = ln.Accept(); err == nil {
			if pause > 0 {
				pause = 0
				p.a.acceptedAgain()
			}
			p.accepted(c, ln.unixPath)
			continue
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			ln.setDeadline(time.Time{}) // first: what comes after that wakes again
			continue
		} else if errors.Is(err, syscall.ECONNABORTED) {
			continue
		} else {
			p.a.notAccepted(acceptText(acceptError(err)))
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
	p.a.count(1)
	p.a.tasks.Add(1)
	c := &portableConn{a: p.a, conn: nc.(streamConn)}
	if err := c.identify(unixPath); err != nil {
		p.a.warnPeer(err)
		c.Close(nil)
		return
	}
	var greeting []byte
	c.session, greeting = p.a.handler.Accept(c)
	go func() {
		if len(greeting) > 0 {
			if _, err := c.Write(greeting); err != nil {
				c.Interrupt(io.EOF)
			}
		}
		c.session.Serve()
	}()
}
