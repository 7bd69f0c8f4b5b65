package container

import (
	"context"
	"errors"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// A reason says why there is no connection to the process.
type reason int

const (
	connected   reason = iota
	noPmdaroot         // and so there are no containers
	noContainer        // that the client has chosen
	noProcess          // it has failed, or others start it
)

// process returns the connection to the process, which is started within timeout
// if there is none, for a client of a container; nil and the reason if it is not started,
// because it has failed just now or has failed before, or because requests of other clients that
// may start it take longer than timeout.
func (p *Proxy) process(name string, timeout time.Duration) (*transport.Conn, reason) {
	if timeout <= 0 {
		timeout = lateGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	select {
	case p.starting <- struct{}{}:
		defer func() { <-p.starting }()
	case <-ctx.Done():
		return nil, noProcess
	}
	p.mu.Lock()
	if p.conn != nil && p.conn.Err() != nil {
		p.stop(p.conn.Err())
	}
	conn, wait := p.conn, p.stopped || !p.started.IsZero() && p.opt.Now().Sub(p.started) < startInterval
	p.mu.Unlock()
	switch {
	case conn != nil:
		return conn, connected
	case !p.available():
		return nil, noPmdaroot
	case wait:
		return nil, noProcess
	}
	if !p.opt.Exists(ctx, name) {
		return nil, noContainer
	}
	conn, err := p.opt.Start(ctx)
	p.adopt(conn)
	// The acceptor calls Notify: mu is not held during a line of the log.
	if err != nil {
		p.opt.Log.Error("cannot start a process of agent {agent:q} for containers: {error}; requests of clients that have chosen a container fail, next try in {delay} at the earliest",
			"agent", p.opt.Name, "delay", startInterval, "error", transport.Reason(err))
		return nil, noProcess
	}
	p.opt.Log.Info("agent {agent:q} has a process for containers, pid {agent_pid}", "agent", p.opt.Name, "agent_pid", conn.Process.PID())
	return conn, connected
}

// adopt makes conn the connection to the process, which has just been started; nil if that
// has failed.
func (p *Proxy) adopt(conn *transport.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = p.opt.Now()
	if conn == nil {
		return
	}
	for _, n := range p.chosen {
		conn.Notify(n)
	}
	p.conn = conn
	switch {
	case p.stopped:
		p.stop(nil)
	case len(p.chosen) == 0:
		p.idle.Reset(p.opt.IdleTimeout)
	}
}

// available reports whether there may be containers, as of now or a second ago.
// The caller holds starting.
func (p *Proxy) available() bool {
	if now := p.opt.Now(); now.Sub(p.looked) >= recheck {
		p.looked, p.possible = now, p.opt.Available()
	}
	return p.possible
}

// failed is called with the reason why the process has no answer, and returns what
// to tell the client.
func (p *Proxy) failed(conn *transport.Conn, err error) error {
	if errors.Is(err, transport.ErrLate) || errors.Is(err, transport.ErrNotReady) {
		if pending, ok := conn.Pending(); !ok || time.Since(pending.Since) < lateGrace {
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
func (p *Proxy) refusal() error {
	if err := p.Worker.Err(); err != nil {
		return err
	}
	return transport.ErrLate
}

// stop ends the process. why is nil if it has done nothing wrong. The caller holds
// mu.
func (p *Proxy) stop(why error) {
	conn := p.conn
	p.conn = nil
	if why == nil {
		p.started = time.Time{}
	}
	go func() { // ends with the process
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), p.opt.StopTimeout)
		defer cancel()
		conn.Process.Stop(ctx)
		if why == nil {
			return
		}
		p.opt.Log.Error("the process of agent {agent:q} for containers is down: {error}; it is started again when a client of a container asks{output}",
			"agent", p.opt.Name, "error", transport.Ended(conn.Process.Status()), "output", conn.Process.StderrTail())
	}()
}
