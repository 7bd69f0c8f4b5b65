// Package open starts the agents of pmcd.conf, in this process or as processes, and
// connects to them. It has the table of the agents that are compiled in.
package open

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/launch/goplugin"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/container"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Config is the configuration of an Opener.
type Config struct {
	Builtin    BuiltinAgents
	Log        *slog.Logger        // also gets the standard error output of agents
	Starter    *child.Starter      // starts processes; may be nil
	Helper     *privsep.Helper     // starts processes as root; nil if there is none
	Credential *syscall.Credential // of processes that Starter starts; nil is that of this process
}

// An Opener starts agents, or connects to agents that others have started.
type Opener struct {
	Config
	plugins  *goplugin.Loader
	logged   *sync.Map       // messages of logOnce
	rights   *privsep.Rights // of Helper; nil without
	onlyRoot bool            // no process is started without Helper
}

// New returns an Opener.
func New(c Config) *Opener {
	o := &Opener{Config: c, plugins: new(goplugin.Loader), logged: new(sync.Map)}
	if c.Helper != nil {
		o.rights = c.Helper.Rights
	}
	return o
}

// WithCredential returns an Opener that differs from o in the credential of processes.
func (o *Opener) WithCredential(c *syscall.Credential) *Opener {
	with := *o
	with.Credential = c
	return &with
}

// Open starts the agent of spec, if pmcd starts it, and connects to it. It is a
// daemon.OpenFunc.
func (o *Opener) Open(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	switch spec.Kind {
	case pmcdconf.Pipe:
		if o.Builtin.Has(spec) {
			return o.openStandIn(ctx, spec, opt)
		}
		if argv, missing := child.Substitute(spec.Argv); missing != "" {
			o.logOnce("agent {agent:q} (dom {domain}) is {program}: {path} does not exist",
				"agent", spec.Name, "domain", spec.Domain, "program", argv[0], "path", missing)
		}
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

// openDSO opens the agent of a dso line. A Go plugin runs in this process, and a C
// shared object in a process of its own. If the file does not exist and the agent is
// built in, it runs in this process, or in one of its own if it needs rights that only
// the root helper has.
func (o *Opener) openDSO(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	b, ok := o.Builtin[spec.Entry]
	if spec.Path == "" && !ok {
		return nil, NotBuiltIn(spec.Entry)
	}
	err := dsohost.Check(spec.Path)
	if ok && errors.Is(err, fs.ErrNotExist) {
		if spec.Path != "" { // pmcd.conf names a file
			o.logBuiltIn(spec)
		}
		return o.openBuiltIn(ctx, spec, b, func() (agents.Agent, error) { return b.newAgent(spec.Domain) }, opt)
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

// openStandIn opens the built-in agent for a pipe line whose program does not exist.
func (o *Opener) openStandIn(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	b := o.Builtin[o.Builtin.Entry(spec)]
	opt.NotReady = false // it is ready when it has been opened
	o.logBuiltIn(spec)
	in, err := o.Builtin.standIn(spec)
	if err != nil {
		return nil, err
	}
	if len(in.Ignored) > 0 {
		o.warnOnce("agent {agent:q} (dom {domain}) is built in: unsupported options of {path} are ignored: {option}",
			"agent", spec.Name, "domain", spec.Domain, "path", File(spec), "option", strings.Join(in.Ignored, ", "))
	}
	if in.NeedsProcess() {
		process := *o
		if b.root == never && !in.OtherUser() {
			process.Helper = nil // this process has the rights
		}
		return process.openProcess(ctx, spec, opt)
	}
	return o.openBuiltIn(ctx, spec, b, func() (agents.Agent, error) { return in.New(slog.Default()) }, opt)
}

// openBuiltIn opens a built-in agent in this process, or in one of its own if it needs
// rights that only the root helper has.
func (o *Opener) openBuiltIn(ctx context.Context, spec *pmcdconf.Agent, b builtinAgent, newAgent func() (agents.Agent, error), opt wire.Options) (*transport.Conn, error) {
	if b.root == always && o.Helper != nil {
		return o.openProcess(ctx, spec, opt)
	}
	o.rights.Full(spec) // it is part of pmcd
	var a agents.Agent
	err := goplugin.RecoverPanic(func() (err error) {
		a, err = newAgent()
		return err
	})
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
	return inProcess(container.New(w, container.Options{
		Name:        spec.Name,
		Log:         o.Log.With("domain", spec.Domain),
		Start:       func(ctx context.Context) (*transport.Conn, error) { return only.openProcess(ctx, spec, opt) },
		Available:   func() bool { return pmdaroot.Listening(pmdaroot.Default()) },
		Exists:      o.containerExists,
		StopTimeout: stopTime,
	})), nil
}

// logBuiltIn logs that a built-in agent is used because the file of spec does not exist.
func (o *Opener) logBuiltIn(spec *pmcdconf.Agent) {
	o.logOnce("agent {agent:q} (dom {domain}) is built in: {path} does not exist",
		"agent", spec.Name, "domain", spec.Domain, "path", File(spec))
}

// logOnce logs a message unless it was logged before, as each restart of an agent
// calls Open.
func (o *Opener) logOnce(message string, attrs ...any) { o.once(slog.LevelInfo, message, attrs) }

func (o *Opener) warnOnce(message string, attrs ...any) { o.once(slog.LevelWarn, message, attrs) }

func (o *Opener) once(level slog.Level, message string, attrs []any) {
	if _, before := o.logged.LoadOrStore(fmt.Sprint(message, attrs), true); before {
		return
	}
	o.Log.Log(context.Background(), level, message, attrs...)
}

// local returns the Transport of an agent in this process.
func local(a agents.Agent, opt wire.Options) *transport.Worker {
	w := transport.Local(a)
	w.OnState(opt.OnState)
	w.LimitReplies(opt.MaxReply)
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
	loaded, _ := os.Stat(spec.Path)
	changed := goplugin.Changes(spec.Path, loaded)
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

// connectPipes makes the connection to an agent that is started and has pipes.
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

// An endedWithRoot is the error of an agent that ended because its root helper has
// ended. Its text replaces the exit status, which is not known.
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
