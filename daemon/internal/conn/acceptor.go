package conn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A Config is what an Acceptor needs to know.
type Config struct {
	Listeners *Listeners
	Handler   Handler

	// Warn gets a line for the log about a condition that clients can cause again
	// and again. key is the same for the same condition. Message and attrs are as
	// for a slog.Logger. Warn is called on goroutines of its own and may wait.
	Warn func(key, message string, attrs ...any)

	// Changed is called when Problems may return something else than before. It must
	// not wait. It may be nil.
	Changed func()

	// IdleTime is how long a client must have asked nothing before its connection is
	// parked. It may take twice as long. 0 is DefaultIdleTime.
	IdleTime time.Duration

	// SendBuffer is the size of a socket's send buffer (SO_SNDBUF). A reply that fits in it is
	// not counted as unread. 0 is the system's default.
	SendBuffer int
}

// An Acceptor accepts connections of clients and has Sessions serve them.
type Acceptor struct {
	Limit
	stall    stall
	handler  Handler
	warnFunc func(key, message string, attrs ...any)
	changed  func()
	loop     *epollLoop

	sendBuffer int // Config.SendBuffer

	tasks     sync.WaitGroup // connections that are not closed, and calls of Warn
	lingering atomic.Int32   // connections in linger

	// ending ends when pmcd stops waiting for clients that have got their last bytes.
	// killed ends when it stops writing to clients.
	ending, killed context.Context
	end, kill      context.CancelFunc
}

// Stats are numbers of connections.
type Stats struct {
	Open      int  // accepted and not closed
	Idle      int  // of these: watched by the acceptor, without a goroutine
	Lingering int  // of these: reading their last bytes
	Exclusive bool // one is in blocking-read mode

	Most int64 // connections that may be open; 0 is any number
}

// NewAcceptor returns an Acceptor, which Run makes work. It takes over the
// sockets of the Listeners.
func NewAcceptor(cfg Config) (*Acceptor, error) {
	a := &Acceptor{handler: cfg.Handler, warnFunc: cfg.Warn, changed: cfg.Changed}
	if a.changed == nil {
		a.changed = func() {}
	}
	a.listeners = len(cfg.Listeners.all)
	a.ending, a.end = context.WithCancel(context.Background())
	a.killed, a.kill = context.WithCancel(context.Background())
	a.sendBuffer = cfg.SendBuffer
	if cfg.IdleTime == 0 {
		cfg.IdleTime = DefaultIdleTime
	}
	var err error
	if a.loop, err = newLoop(a, cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Run accepts connections until ctx ends. Then idle connections end, and clients
// that have got their last bytes are not waited for any more. The error is why Run
// ends before.
func (a *Acceptor) Run(ctx context.Context) error {
	defer a.end()
	defer a.stall.end()
	return a.loop.run(ctx)
}

// Probe returns when Run has looked for connections once more. It is the liveness
// probe of the acceptor. If the acceptor hangs, Probe waits until ctx ends.
func (a *Acceptor) Probe(ctx context.Context) error { return a.loop.probe(ctx) }

// Kill ends connections that are writing their last bytes.
func (a *Acceptor) Kill() { a.kill() }

// Wait waits until all connections are closed: for their handlers at most as long as
// handlers, and then for closes that the system does not finish at most as long as
// closes. It returns how many handlers have not returned. The end of a process does not
// depend on its clients, nor on what a handler calls.
func (a *Acceptor) Wait(handlers, closes time.Duration) (left int) {
	if !waitFor(&a.tasks, handlers) {
		return int(a.open.Load()) // they may still close connections
	}
	waitFor(&a.loop.closes, closes)
	return 0
}

// waitFor waits for g, at most as long as limit. It reports whether g has ended.
func waitFor(g *sync.WaitGroup, limit time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		g.Wait()
		close(ended)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// Stats returns the numbers of connections at the moment.
func (a *Acceptor) Stats() Stats {
	s := Stats{Open: int(a.open.Load()), Most: a.most.Load(), Lingering: int(a.lingering.Load())}
	a.loop.stats(&s)
	return s
}

// warn writes a line about a condition that clients can cause.
func (a *Acceptor) warn(key, message string, attrs ...any) {
	a.tasks.Go(func() { a.warnFunc(key, message, attrs...) })
}

// warnPeer logs that a client has no greeting because the system does not know its address,
// process or user, which access rules need.
func (a *Acceptor) warnPeer(err error) {
	a.warn("peer", "a client was disconnected, because its address, process or user cannot be read: {error}", "error", err)
}
