// Package container serves clients of containers: a Transport to an agent in pmcd's
// process that sends the requests of these clients to a process that runs as root.
package container

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Proxy is a Transport to an agent in this process. It sends the requests of clients
// that have chosen a container to another process with the same agent, which runs as
// root, because only root can read the files of a container. The process runs while
// there is such a client, and for IdleTimeout after that. If the process cannot answer
// a request, the error is ErrLate, unless the Transport has ended.
//
// Any client can name a container that does not exist, so a request must cost little.
// Without a pmdaroot there are no containers, and no process is started. Nor is one
// started for a container that pmdaroot does not know. A process that has failed is started
// again ten seconds after its start at the earliest.
//
// A Proxy does not affect the requests of other clients.
type Proxy struct {
	*transport.Worker
	opt Options

	chosenCount atomic.Int32 // len(chosen)

	starting chan struct{} // a semaphore, held while the process is started, taken before mu; guards the following
	looked   time.Time     // when available was last set
	possible bool          // what Available said

	mu      sync.Mutex // guards the following; locked before those of the Worker and of conn
	chosen  map[int32]transport.Notice
	conn    *transport.Conn // nil if there is no process
	started time.Time       // when the last process was started; zero if it has ended without a failure
	idle    *time.Timer
	stopped bool
}

// Options are the options of a Proxy.
type Options struct {
	Name  string // of the agent, for messages
	Start func(ctx context.Context) (*transport.Conn, error)
	Log   *slog.Logger

	// Available reports whether there may be containers. It is called once a
	// second at most.
	Available func() bool

	// Exists reports whether there is a container of that name. It is called for a
	// client of a container while there is no process.
	Exists func(ctx context.Context, container string) bool

	// StopTimeout is how long the process may take to end.
	StopTimeout time.Duration

	// IdleTimeout is how long the process runs without clients. 0 is one minute; if
	// it is negative, the process is stopped at once.
	IdleTimeout time.Duration

	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	startInterval = 10 * time.Second // from one start to the next, if the process has failed
	recheck       = time.Second      // from one call of Available to the next: it may read a list of all sockets
	lateGrace     = time.Minute      // how long the process may be late before it is ended
	defaultIdle   = time.Minute      // IdleTimeout by default
)

// New returns a Proxy to the agent of w.
func New(w *transport.Worker, opt Options) *Proxy {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.IdleTimeout == 0 {
		opt.IdleTimeout = defaultIdle
	}
	opt.IdleTimeout = max(opt.IdleTimeout, 0)
	p := &Proxy{Worker: w, opt: opt, starting: make(chan struct{}, 1), chosen: make(map[int32]transport.Notice)}
	p.idle = time.AfterFunc(time.Hour, p.stopIdle)
	p.idle.Stop()
	return p
}

// stopIdle ends the process if it has no clients.
func (p *Proxy) stopIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.chosen) == 0 && p.conn != nil {
		p.stop(nil)
	}
}

// Send implements transport.Transport.
func (p *Proxy) Send(c *transport.Call) (transport.Reply, error) {
	if p.chosenCount.Load() == 0 {
		return p.Worker.Send(c)
	}
	p.mu.Lock()
	chosen, ok := p.chosen[c.Origin.Client]
	conn, why := p.conn, connected
	p.mu.Unlock()
	if !ok {
		return p.Worker.Send(c)
	}
	if conn == nil || conn.Err() != nil {
		c.BeforeWait(false)
		conn, why = p.process(container(chosen), c.Timeout)
	}
	switch why {
	case noPmdaroot:
		return p.Worker.Send(c) // the agent says that it is not connected to pmdaroot
	case noContainer:
		r, err := p.Worker.Send(c)
		if err != nil {
			return nil, err
		}
		return unknown{r}, nil
	case noProcess:
		return nil, p.refusal()
	}
	r, err := conn.Send(c)
	if err != nil {
		return nil, p.failed(conn, err)
	}
	return &reply{r, p, conn}, nil
}

// A reply is a Reply of the process.
type reply struct {
	transport.Reply
	proxy *Proxy
	conn  *transport.Conn
}

// Recv implements transport.Reply.
func (r *reply) Recv(dst []byte) ([]byte, error) {
	b, err := r.Reply.Recv(dst)
	if err != nil {
		err = r.proxy.failed(r.conn, err)
	}
	return b, err
}

// container returns the name of the container that a client has chosen.
func container(n transport.Notice) (name string) {
	for _, a := range n.Attrs {
		if a.Code == pdu.AttrContainer {
			name = string(a.Value)
		}
	}
	return name
}

// An unknown is the Reply of the agent in this process to a client whose container does
// not exist. Only pmdaroot knows that, to which the agent is not connected.
type unknown struct{ transport.Reply }

// Recv implements transport.Reply.
func (r unknown) Recv(dst []byte) ([]byte, error) {
	b, err := r.Reply.Recv(dst)
	if err != nil {
		return b, err
	}
	var e pdu.Error
	if from, err := pdu.ParseInto(b[len(dst):], &e); err == nil && e.Code == pdu.ErrnoNotConn {
		return pdu.Append(b[:len(dst)], from, &pdu.Error{Code: pdu.ErrnoNoContainer})
	}
	return b, nil
}

// Notify implements transport.Transport.
func (p *Proxy) Notify(n transport.Notice) {
	p.Worker.Notify(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, was := p.chosen[n.Client]
	is := was && !n.End && n.Attrs == nil
	for _, a := range n.Attrs {
		is = is || a.Code == pdu.AttrContainer && len(a.Value) > 0
	}
	if is && n.Attrs != nil {
		p.chosen[n.Client] = n
	} else if !is {
		delete(p.chosen, n.Client)
	}
	p.chosenCount.Store(int32(len(p.chosen)))
	switch {
	case p.conn == nil || !is && !was:
		return
	case is:
		p.conn.Notify(n)
	default:
		p.conn.Notify(transport.Notice{Client: n.Client, End: true})
	}
	if len(p.chosen) == 0 {
		p.idle.Reset(p.opt.IdleTimeout)
	}
}

// Close implements transport.Transport. It closes the Worker first, so that calls of the process
// fail with ErrClosed, too.
func (p *Proxy) Close() error {
	err := p.Worker.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.idle.Stop()
	if p.conn != nil {
		p.stop(nil)
	}
	return err
}
