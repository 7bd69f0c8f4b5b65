package transport

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A ContainerProxy is a Transport to an agent in this process. It sends the requests
// of clients that have chosen a container to another process with the same agent,
// which runs as root, because only root can read the files of a container. The
// process runs while there is such a client, and for IdleTimeout after that. If the
// process cannot answer a request, the error is ErrLate, unless the Transport has ended.
//
// Any client can name a container that does not exist, so a request must cost little.
// Without a pmdaroot there are no containers, and no process is started. Otherwise a
// process is started at most once a minute, even if it has failed.
//
// A ContainerProxy does not affect the requests of other clients.
type ContainerProxy struct {
	*Worker
	opt ContainerOptions

	chosenCount atomic.Int32 // len(chosen)

	starting sync.Mutex // held while the process is started; guards the following
	looked   time.Time  // when available was last set
	possible bool       // what Available said

	mu      sync.Mutex // guards the following
	chosen  map[int32]Notice
	conn    *Conn     // nil if there is no process
	next    time.Time // when a process may be started again
	idle    *time.Timer
	stopped bool
}

// ContainerOptions are the options of a ContainerProxy.
type ContainerOptions struct {
	Name  string // of the agent, for messages
	Start func(ctx context.Context) (*Conn, error)
	Log   *slog.Logger

	// Available reports whether there may be containers. It is called once a
	// second at most.
	Available func() bool

	// StopTimeout is how long the process may take to end.
	StopTimeout time.Duration

	// IdleTimeout is how long the process runs without clients. 0 is one minute; if
	// it is negative, the process is stopped at once.
	IdleTimeout time.Duration

	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	containerRestart = time.Minute // from one start of the process to the next
	containerRecheck = time.Second // from one call of Available to the next
	containerGrace   = time.Minute // how long the process may be late before it is ended
	containerIdle    = time.Minute // IdleTimeout by default
)

// NewContainerProxy returns a ContainerProxy to the agent of w.
func NewContainerProxy(w *Worker, opt ContainerOptions) *ContainerProxy {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.IdleTimeout == 0 {
		opt.IdleTimeout = containerIdle
	}
	opt.IdleTimeout = max(opt.IdleTimeout, 0)
	p := &ContainerProxy{Worker: w, opt: opt, chosen: make(map[int32]Notice)}
	p.idle = time.AfterFunc(time.Hour, p.stopIdle)
	p.idle.Stop()
	return p
}

// stopIdle ends the process if it has no clients.
func (p *ContainerProxy) stopIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.chosen) == 0 && p.conn != nil {
		p.stop(nil)
	}
}

// Send implements Transport.
func (p *ContainerProxy) Send(c *Call) (Reply, error) {
	if p.chosenCount.Load() == 0 {
		return p.Worker.Send(c)
	}
	p.mu.Lock()
	_, chosen := p.chosen[c.Origin.Client]
	p.mu.Unlock()
	if !chosen {
		return p.Worker.Send(c)
	}
	conn, possible := p.process(c.Timeout)
	switch {
	case !possible:
		return p.Worker.Send(c) // the agent says that there is no such container
	case conn == nil:
		return nil, p.refusal()
	}
	r, err := conn.Send(c)
	if err != nil {
		return nil, p.failed(conn, err)
	}
	return &containerReply{r, p, conn}, nil
}

// A containerReply is a Reply of the process.
type containerReply struct {
	Reply
	proxy *ContainerProxy
	conn  *Conn
}

// Recv implements Reply.
func (r *containerReply) Recv(dst []byte) ([]byte, error) {
	b, err := r.Reply.Recv(dst)
	if err != nil {
		err = r.proxy.failed(r.conn, err)
	}
	return b, err
}

// process returns the connection to the process, which is started within timeout
// if there is none; nil if that fails, or was tried less than a minute ago.
// possible reports whether there may be containers at all.
func (p *ContainerProxy) process(timeout time.Duration) (conn *Conn, possible bool) {
	p.starting.Lock()
	defer p.starting.Unlock()
	p.mu.Lock()
	if p.conn != nil && p.conn.Err() != nil {
		p.stop(p.conn.Err())
	}
	conn, wait := p.conn, p.stopped || p.opt.Now().Before(p.next)
	p.mu.Unlock()
	if conn != nil {
		return conn, true
	}
	if !p.available() {
		return nil, false
	}
	if wait {
		return nil, true
	}
	if timeout <= 0 {
		timeout = containerGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := p.opt.Start(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = p.opt.Now().Add(containerRestart)
	if err != nil {
		p.opt.Log.Error("cannot start a process of agent {agent:q} for containers, next try in {delay} at the earliest: {error}",
			"agent", p.opt.Name, "delay", containerRestart, "error", Reason(err))
		return nil, true
	}
	for _, n := range p.chosen {
		conn.Notify(n)
	}
	p.conn = conn
	p.opt.Log.Info("agent {agent:q} has a process for containers, pid {agent_pid}", "agent", p.opt.Name, "agent_pid", conn.Process.PID())
	switch {
	case p.stopped:
		p.stop(nil)
	case len(p.chosen) == 0:
		p.idle.Reset(p.opt.IdleTimeout)
	}
	return conn, true
}

// available reports whether there may be containers, as of now or a second ago.
// The caller holds starting.
func (p *ContainerProxy) available() bool {
	if now := p.opt.Now(); now.Sub(p.looked) >= containerRecheck {
		p.looked, p.possible = now, p.opt.Available()
	}
	return p.possible
}

// failed is called with the reason why the process has no answer, and returns what
// to tell the client.
func (p *ContainerProxy) failed(conn *Conn, err error) error {
	if errors.Is(err, ErrLate) || errors.Is(err, ErrNotReady) {
		if pending, ok := conn.Pending(); !ok || time.Since(pending.Since) < containerGrace {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == conn {
		p.stop(err)
	}
	return p.refusal()
}

// refusal returns what to tell a client whose request the process cannot answer.
func (p *ContainerProxy) refusal() error {
	if err := p.Worker.Err(); err != nil {
		return err
	}
	return ErrLate
}

// stop ends the process. why is nil if it has done nothing wrong. The caller holds
// mu.
func (p *ContainerProxy) stop(why error) {
	conn := p.conn
	p.conn = nil
	go func() { // ends with the process
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), p.opt.StopTimeout)
		defer cancel()
		conn.Process.Stop(ctx)
		if why == nil {
			return
		}
		p.opt.Log.Error("the process of agent {agent:q} for containers is down: {error}{output}",
			"agent", p.opt.Name, "error", Ended(conn.Process.Status()), "output", indented(conn.Process.StderrTail()))
	}()
}

// indented is lines that follow the text of a message.
type indented []string

func (l indented) String() string {
	var b strings.Builder
	for _, line := range l {
		b.WriteString("\n    " + line)
	}
	return b.String()
}

// Notify implements Transport.
func (p *ContainerProxy) Notify(n Notice) {
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
		p.conn.Notify(Notice{Client: n.Client, End: true})
	}
	if len(p.chosen) == 0 {
		p.idle.Reset(p.opt.IdleTimeout)
	}
}

// Close implements Transport.
func (p *ContainerProxy) Close() error {
	p.Worker.fail(ErrClosed) // first: calls of the process end with this error, too
	p.mu.Lock()
	p.stopped = true
	p.idle.Stop()
	if p.conn != nil {
		p.stop(nil)
	}
	p.mu.Unlock()
	return p.Worker.Close()
}
