package conn

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Config is what an Acceptor needs to know.
type Config struct {
	Listeners *Listeners
	Handler   Handler

	// Warn gets a line for the log about a condition that clients can cause again
	// and again. key is the same for the same condition. Warn is called on
	// goroutines of its own and may wait.
	Warn func(key, text string)

	// Portable selects the portable implementation.
	Portable bool

	// CalmTime is how long a client must have asked nothing before its connection is
	// parked. It may take twice as long. 0 is DefaultCalmTime.
	CalmTime time.Duration
}

// An Acceptor accepts connections of clients and has Sessions serve them.
type Acceptor struct {
	Limit
	handler  Handler
	warnFunc func(key, text string)
	loop     loop

	tasks     sync.WaitGroup // connections that are not closed, and calls of Warn
	lingering atomic.Int32   // connections in linger

	// ending ends when pmcd stops waiting for clients that have got their last bytes.
	// killed ends when it stops writing to clients.
	ending, killed context.Context
	end, kill      context.CancelFunc
}

// A loop is an implementation of an Acceptor.
type loop interface {
	// run accepts connections until ctx ends, and then ends those that are idle. The
	// error is why it ends before.
	run(ctx context.Context) error

	// probe returns nil when run has looked for connections once more, or when ctx
	// ends.
	probe(ctx context.Context) error

	// stats fills in Idle and Exclusive.
	stats(*Stats)

	// wait waits for closes that are in progress, at most so long.
	wait(time.Duration)
}

// Stats are numbers of connections.
type Stats struct {
	Open      int  // accepted and not closed
	Idle      int  // of these: watched by the acceptor, without a goroutine
	Lingering int  // of these: reading their last bytes
	Exclusive bool // one is in blocking-read mode
}

// NewAcceptor returns an Acceptor, which Run makes work. It takes over the
// sockets of the Listeners.
func NewAcceptor(cfg Config) (*Acceptor, error) {
	a := &Acceptor{handler: cfg.Handler, warnFunc: cfg.Warn}
	a.Limit.listeners = len(cfg.Listeners.all)
	a.ending, a.end = context.WithCancel(context.Background())
	a.killed, a.kill = context.WithCancel(context.Background())
	if cfg.CalmTime == 0 {
		cfg.CalmTime = DefaultCalmTime
	}
	var err error
	if cfg.Portable {
		a.loop = newPortableLoop(a, cfg.Listeners)
	} else {
		a.loop, err = newLoop(a, cfg)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Run accepts connections until ctx ends. Then idle connections end, and clients
// that have got their last bytes are not waited for any more. The error is why Run
// ends before.
func (a *Acceptor) Run(ctx context.Context) error {
	defer a.end()
	return a.loop.run(ctx)
}

// Probe returns when Run has looked for connections once more. It is the liveness
// probe of the acceptor. If the acceptor hangs, Probe waits until ctx ends.
func (a *Acceptor) Probe(ctx context.Context) error { return a.loop.probe(ctx) }

// Kill ends connections that are writing their last bytes.
func (a *Acceptor) Kill() { a.kill() }

// Wait waits until all connections are closed. For closes that the system does
// not finish it waits for grace at most: the end of a process does not depend on
// its clients.
func (a *Acceptor) Wait(grace time.Duration) {
	a.tasks.Wait()
	a.loop.wait(grace)
}

// Stats returns the numbers of connections at the moment.
func (a *Acceptor) Stats() Stats {
	s := Stats{Open: int(a.Limit.open.Load()), Lingering: int(a.lingering.Load())}
	a.loop.stats(&s)
	return s
}

// warn writes a line about a condition that clients can cause.
func (a *Acceptor) warn(key, format string, args ...any) {
	a.tasks.Go(func() { a.warnFunc(key, fmt.Sprintf(format, args...)) })
}

// A pause is how long an acceptor stays away from a listening socket after an
// accept that failed. It doubles with each failure.
type pause time.Duration

func (p *pause) next() time.Duration {
	*p = min(max(2**p, pause(5*time.Millisecond)), pause(time.Second))
	return time.Duration(*p)
}

// warnAccept says why no client is accepted at a listening socket.
func (a *Acceptor) warnAccept(format string, args ...any) {
	a.warn("accept", "AcceptNewClient: "+format, args...)
}

// warnFull says that there are as many clients as there may be.
func (a *Acceptor) warnFull() {
	a.warnAccept("%d clients are connected, as many as RLIMIT_NOFILE allows beside what agents need; others wait until some leave", a.Limit.open.Load())
}
