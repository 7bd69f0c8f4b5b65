package conn

import (
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// promote has the Session of a connection served by a goroutine of its own.
func (l *epollLoop) promote(c *linuxConn) {
	if c.state == idle {
		l.unwatch(c)
	}
	l.mu.Lock()
	l.serving[c] = struct{}{}
	if !l.sweeping && !l.closed {
		l.sweeping = true
		time.AfterFunc(l.idleTime, l.sweep)
	}
	l.mu.Unlock()
	go c.session.Serve()
}

// unwatch detaches an idle connection.
func (l *epollLoop) unwatch(c *linuxConn) {
	delete(l.idle, int32(c.fd))
	l.idleCount.Add(-1)
	// Even before a close: the set has what is behind fd for as long as a process
	// that is being started does, and would report it again and again.
	l.watch(unix.EPOLL_CTL_DEL, c.fd, 0)
	c.mu.Lock()
	c.state = detached
	c.mu.Unlock()
}

// park hands a detached connection to the acceptor, and reports true: from then on
// another goroutine may serve it. If the acceptor has ended, park reports false and
// the connection ends.
func (c *linuxConn) park() bool {
	l := c.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.readErr = io.EOF
		return false
	}
	delete(l.serving, c)
	c.swept.Store(false)
	if l.returned = append(l.returned, c); len(l.returned) == 1 {
		l.wake()
	}
	return true
}

// takeReturned returns the connections that were parked since the last call.
func (l *epollLoop) takeReturned() []*linuxConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.returned
	l.returned = nil
	return list
}

// interrupt has run promote a connection that was idle when it was interrupted. The
// epoll set cannot do it: there may never be input, nor room for output.
func (l *epollLoop) interrupt(c *linuxConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // run promotes all
		return
	}
	if l.interrupts = append(l.interrupts, c); len(l.interrupts) == 1 {
		l.wake()
	}
}

// takeInterrupts returns the connections that were interrupted since the last call.
func (l *epollLoop) takeInterrupts() []*linuxConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.interrupts
	l.interrupts = nil
	return list
}

// isIdle reports whether the state is idle. Only the goroutine of run ends this
// state; for others it may be over at once.
func (c *linuxConn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == idle
}

// sweep parks the connections that had no request since the last sweep, and comes
// again while there are others.
func (l *epollLoop) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sweeping = len(l.serving) > 0 && !l.closed; !l.sweeping {
		return
	}
	for c := range l.serving {
		if !c.swept.Swap(true) {
			continue
		}
		c.requestPark()
	}
	time.AfterFunc(l.idleTime, l.sweep)
}

// requestPark ends a wait of Go's poller, so that Wait parks the connection. Where
// the connection does not wait for a request, the next Wait parks it, which does no
// harm.
func (c *linuxConn) requestPark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == polled {
		c.parking.Store(true)
		c.stream.SetReadDeadline(past)
	}
}
