package conn

import (
	"slices"
	"sync"
	"time"
)

// A closer closes the Unix sockets of clients. Where Linux has no SO_PASSRIGHTS a
// close may wait for what the client has left in the socket: the last descriptor
// of a TCP socket, whose close lasts as long as its SO_LINGER says. A close is
// done by a goroutine of its own, never by the acceptor, and waits for its turn
// while too many are in progress: package runtime ends a process with 10,000
// threads that are blocked.
//
// There are two of them: a few users, whose closes never end, must not keep the
// sockets of others open, each of which counts as a client.
type closer struct {
	mu    sync.Mutex // guards the following
	busy  int        // closes in progress
	users map[uint32]*userCloses
	order []*userCloses // those with something waiting, in turn
	idle  chan struct{} // closed when nothing is left; nil if wait was not called
}

// userCloses are the sockets of clients of one uid.
type userCloses struct {
	uid     uint32
	busy    int
	waiting []func()
}

const (
	maxCloses     = 16 // at a time
	maxUserCloses = 4  // of them, for one uid
)

// close has f called, which closes a socket of a client of uid's.
func (c *closer) close(uid uint32, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[uid]
	if u == nil {
		if c.users == nil {
			c.users = make(map[uint32]*userCloses)
		}
		u = &userCloses{uid: uid}
		c.users[uid] = u
	}
	if u.waiting = append(u.waiting, f); len(u.waiting) == 1 {
		c.order = append(c.order, u)
	}
	c.start()
}

// start starts the closes whose turn it is. The caller holds mu.
func (c *closer) start() {
	for i := 0; c.busy < maxCloses && i < len(c.order); {
		u := c.order[i]
		if u.busy == maxUserCloses {
			i++
			continue
		}
		f := u.waiting[0]
		u.waiting = u.waiting[1:]
		if c.order = slices.Delete(c.order, i, i+1); len(u.waiting) > 0 {
			c.order = append(c.order, u)
		}
		c.busy++
		u.busy++
		go func() { // is waited for by wait
			f()
			c.done(u)
		}()
	}
}

func (c *closer) done(u *userCloses) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	if u.busy--; u.busy == 0 && len(u.waiting) == 0 {
		delete(c.users, u.uid)
	}
	c.start()
	if c.idle != nil && len(c.users) == 0 {
		close(c.idle)
		c.idle = nil
	}
}

// wait waits until all is closed, or for some time: the end of the process does
// not wait for the peers of sockets. It must be called once.
func (c *closer) wait(grace time.Duration) {
	idle := make(chan struct{})
	c.mu.Lock()
	if len(c.users) == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	c.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}
