// Package open starts the agents of pmcd.conf, in this process or as processes, and
// connects to them. It has the table of the agents that are compiled in.
package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/launch/dsohost"
	"github.com/gopcp/pmcd/agents/launch/goplugin"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/agents/pmdaroot"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An Config has what an opener needs.
type Config struct {
	Stderr     io.Writer // of agents: the log
	Builtin    BuiltinAgents
	Log        *slog.Logger
	Starter    *child.Starter      // starts processes; may be nil
	Helper     *privsep.Helper     // starts processes as root; nil if there is none
	Credential *syscall.Credential // of processes that Starter starts; nil is that of this process
}

// An Opener starts agents, or connects to agents that others have started.
type Opener struct {
	Config
	plugins  *goplugin.Loader
	said     *sync.Map       // lines that once has logged
	rights   *privsep.Rights // of Helper; nil without
	onlyRoot bool            // no process is started without Helper
}

// New returns an opener.
func New(c Config) *Opener {
	o := &Opener{Config: c, plugins: new(goplugin.Loader), said: new(sync.Map)}
	if c.Helper != nil {
		o.rights = c.Helper.Rights
	}
	return o
}

// WithCredential returns an opener that is like o but for the credential of processes.
func (o *Opener) WithCredential(c *syscall.Credential) *Opener {
	with := *o
	with.Credential = c
	return &with
}

// Open starts an agent, or connects to it. It is a daemon.OpenFunc.
func (o *Opener) Open(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	switch spec.Kind {
	case pmcdconf.Pipe:
		p, err := o.start(ctx, spec, "")
		if err != nil {
			return nil, err
		}
		return o.connectPipes(ctx, p, opt)
	case pmcdconf.Socket:
		return o.openSocket(ctx, spec, opt)
	}
	return o.openDSO(ctx, spec, opt)
}

// openDSO has the agent of a dso line in this process if it is a Go plugin, or
// built in and there is no file, and else in a process of its own. So is a
// built-in agent that needs rights which only the root helper has.
func (o *Opener) openDSO(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	b, ok := o.Builtin[spec.Entry]
	if spec.Path == "" && !ok {
		return nil, NotBuiltIn(spec.Entry)
	}
	err := dsohost.Check(spec.Path)
	if ok && errors.Is(err, fs.ErrNotExist) {
		if spec.Path != "" { // pmcd.conf does not say that it is built in
			o.once("agent {agent:q} (dom {domain}) is built in: {path} does not exist",
				"agent", spec.Name, "domain", spec.Domain, "path", spec.Path)
		}
		if b.root == always && o.Helper != nil {
			return o.openProcess(ctx, spec, opt)
		}
		o.rights.Full(spec) // it is part of pmcd
		a, err := construct(b.newAgent, spec.Domain)
		if err != nil {
			return nil, err
		}
		w := local(a, opt)
		if b.root != forContainer || o.Helper == nil {
			return inProcess(w), nil
		}
		opt.OnState = nil // the state of the process is not the agent's
		only := *o
		only.onlyRoot = true
		return inProcess(transport.NewContainerProxy(w, transport.ContainerOptions{
			Name:        spec.Name,
			Log:         o.Log.With("domain", spec.Domain),
			Start:       func(ctx context.Context) (*transport.Conn, error) { return only.openProcess(ctx, spec, opt) },
			Available:   func() bool { return pmdaroot.Listening(pmdaroot.Default()) },
			StopTimeout: stopTime,
		})), nil
	}
	if err != nil {
		return nil, err
	}
	a, err := o.plugins.Open(ctx, spec.Path, spec.Entry, spec.Domain)
	switch {
	case errors.Is(err, goplugin.ErrNotPlugin):
		return o.openHost(ctx, spec, opt)
	case err != nil:
		return nil, err
	}
	o.rights.Full(spec)
	l := inProcess(local(a, opt))
	l.Changed = func() error { return o.plugins.Changed(spec.Path) }
	return l, nil
}

// once logs a line the first time: agents are started again.
func (o *Opener) once(message string, attrs ...any) {
	if _, was := o.said.LoadOrStore(fmt.Sprint(message, attrs), true); was {
		return
	}
	o.Log.Info(message, attrs...)
}

// local returns the Transport of an agent in this process.
func local(a agents.Agent, opt wire.Options) *transport.Worker {
	w := transport.Local(a)
	w.OnState(opt.OnState)
	return w
}

// inProcess returns the connection to an agent in this process.
func inProcess(t transport.Transport) *transport.Conn {
	return &transport.Conn{Transport: t, In: -1, Out: -1}
}

// openProcess starts a process for a built-in agent.
func (o *Opener) openProcess(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	p, err := o.start(ctx, spec, roothelper.Self)
	if err != nil {
		return nil, err
	}
	return o.connectPipes(ctx, p, opt)
}

// openHost starts a process for a shared object.
func (o *Opener) openHost(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	changed := changes(spec.Path)
	p, err := o.start(ctx, spec, "")
	if err != nil {
		return nil, err
	}
	iface, err := dsohost.Ready(ctx, p.Pipes)
	if err != nil {
		return nil, p.failed(err)
	}
	l, err := o.connectPipes(ctx, p, opt)
	if err != nil {
		return nil, err
	}
	l.Interface = iface
	l.Changed = func() error {
		if !changed() {
			return nil
		}
		return fmt.Errorf("%s has changed since agent %q (dom %d) loaded it: to use it, kill -KILL %d and send pmcd SIGHUP again",
			spec.Path, spec.Name, spec.Domain, p.PID())
	}
	return l, nil
}

// connectPipes does the handshake with an agent that has pipes.
func (o *Opener) connectPipes(ctx context.Context, p *agentProcess, opt wire.Options) (*transport.Conn, error) {
	in, out := p.Pipes.FDs()
	c, err := handshake(ctx, p, p.Pipes, opt)
	if err != nil {
		return nil, err
	}
	go func() { // ends with the process
		<-p.Done()
		var why error = transport.Ended(p.Status())
		if o.rootEnded(p) {
			why = endedWithRoot{transport.Ended(p.Status())}
		}
		c.PeerGone(why)
	}()
	return &transport.Conn{Transport: c, Process: p, In: in, Out: out}, nil
}

// An endedWithRoot is why an agent has ended whose root helper has ended. Messages have
// it in place of the status, which is not known.
type endedWithRoot struct{ status transport.Ended }

func (endedWithRoot) Error() string   { return roothelper.ErrLost.Error() }
func (e endedWithRoot) Unwrap() error { return e.status }

// rootEnded reports whether p is a process of a root helper that has ended.
func (o *Opener) rootEnded(p *agentProcess) bool {
	if _, ok := p.process.(*roothelper.Process); !ok {
		return false
	}
	select {
	case <-o.Helper.Lost():
		return true
	default:
		return false
	}
}

// openSocket connects to an agent that listens. One that we start ourselves
// needs some time until it does.
func (o *Opener) openSocket(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	var p *agentProcess
	if len(spec.Argv) == 0 {
		o.rights.Full(spec) // pmcd does not decide on it
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
			case <-o.Helper.Lost(): // no process could stop the agent any more
				if o.rootEnded(p) {
					c.PeerGone(endedWithRoot{transport.Ended(p.Status())})
				}
			}
		}()
	}
	return &transport.Conn{Transport: c, Process: p, In: fd, Out: fd}, nil
}

// dial connects to the agent, until ctx ends if p is the agent.
func dial(ctx context.Context, p *agentProcess, spec *pmcdconf.Agent) (wire.Conn, error) {
	network, addr := "unix", spec.Address
	switch spec.Family {
	case access.Inet:
		network, addr = "tcp4", net.JoinHostPort("127.0.0.1", fmt.Sprint(spec.Port))
	case access.IPv6: // not every host knows that localhost has such an address
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
		case <-again.C: // p may have ended: it may have started the agent
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("%w; %w", err, context.Cause(ctx))
		}
	}
}

// handshake does the version exchange with an agent; p is its process, or nil.
func handshake(ctx context.Context, p *agentProcess, conn wire.Conn, opt wire.Options) (*wire.Client, error) {
	c, err := wire.Dial(ctx, conn, opt)
	if err != nil {
		return nil, p.failed(err)
	}
	return c, nil
}
