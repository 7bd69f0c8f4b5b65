package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// openSocket connects to the agent of a socket line. If the line has a command, it
// starts the agent first.
func (o *Opener) openSocket(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	var p *agentProcess
	if len(spec.Argv) == 0 {
		o.rights.Full(spec) // pmcd does not start it
	} else {
		var err error
		if p, err = o.start(ctx, spec, ""); err != nil {
			return nil, err
		}
	}
	conn, err := dial(ctx, p, spec)
	if err != nil {
		return nil, p.failed(err)
	}
	fd := -1
	if raw, err := conn.SyscallConn(); err == nil {
		raw.Control(func(n uintptr) { fd = int(n) })
	}
	c, err := handshake(ctx, p, conn, opt)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return &transport.Conn{Transport: c, In: fd, Out: fd}, nil
	}
	if o.Helper != nil {
		go func() { // ends with the connection
			select {
			case <-c.Done():
			case <-o.Helper.Lost(): // no process can stop the agent any more
				if o.rootEnded(p) {
					c.PeerGone(endedWithRoot{transport.Ended(p.Status())})
				}
			}
		}()
	}
	return &transport.Conn{Transport: c, Process: p, In: fd, Out: fd}, nil
}

// dial connects to the agent of spec. If pmcd has started it as p, dial tries again
// until the agent listens or ctx ends.
func dial(ctx context.Context, p *agentProcess, spec *pmcdconf.Agent) (wire.Conn, error) {
	network, addr := "unix", spec.Address
	switch spec.Family {
	case access.Inet:
		network, addr = "tcp4", net.JoinHostPort("127.0.0.1", fmt.Sprint(spec.Port))
	case access.IPv6: // on some hosts, localhost has no IPv6 address
		network, addr = "tcp6", net.JoinHostPort("::1", fmt.Sprint(spec.Port))
	}
	for {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err == nil {
			return conn.(wire.Conn), nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("cannot connect to %s: %w", addr, context.Cause(ctx))
		}
		if p == nil || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		again := time.NewTimer(20 * time.Millisecond)
		select {
		case <-again.C: // even if p has ended, as it may have started another process
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// handshake does the version exchange with an agent. p is its process; nil if pmcd has
// not started it.
func handshake(ctx context.Context, p *agentProcess, conn wire.Conn, opt wire.Options) (*wire.Client, error) {
	c, err := wire.Dial(ctx, conn, opt)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, context.DeadlineExceeded):
		// Without this, the status of an agent that ends then looks like the reason.
		err = fmt.Errorf("%w, so pmcd closed the connection", err)
	}
	return nil, p.failed(err)
}
