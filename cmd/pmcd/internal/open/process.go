package open

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An agentProcess is the process of an agent, which this process or the root helper
// has started. Its standard error output goes to the log.
type agentProcess struct {
	process
	Pipes  *child.Pipes // nil for a socket agent
	stderr *child.Stderr
}

// An agentOutput logs lines that an agent has written. Each begins with the name of the agent:
// an agent of another user could write what looks like lines of pmcd.
type agentOutput struct {
	log  *slog.Logger
	spec *pmcdconf.Agent
}

// Write implements io.Writer. b is whole lines.
func (o agentOutput) Write(b []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\n"), "\n") {
		o.log.Info("agent {agent:q}: {text}", "agent", o.spec.Name, "domain", o.spec.Domain, "text", line)
	}
	return len(b), nil
}

// A process is a child.Process or a roothelper.Process.
type process interface {
	PID() int
	Done() <-chan struct{}
	Status() syscall.WaitStatus
	Stop(ctx context.Context)
}

var _ transport.Process = (*agentProcess)(nil)

// start starts the process of an agent. program is roothelper.Self for a built-in
// agent, else "".
func (o *Opener) start(ctx context.Context, spec *pmcdconf.Agent, program string) (*agentProcess, error) {
	what := starting(spec, program)
	stderr, err := child.NewStderr(agentOutput{o.Log.With(logtext.Bare()), spec})
	if err != nil {
		return nil, err
	}
	c := &agentProcess{stderr: stderr}
	c.process, c.Pipes, err = o.run(ctx, spec, program, stderr.File())
	stderr.Started()
	if err != nil {
		stderr.Close()
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if c.Pipes == nil && spec.Kind != pmcdconf.Socket {
		return nil, c.failed(fmt.Errorf("%s: the process has no pipes", what))
	}
	return c, nil
}

// starting returns what a process is started for, in an error.
func starting(spec *pmcdconf.Agent, program string) string {
	switch {
	case program == roothelper.Self:
		return "error starting a process for the built-in agent"
	case spec.Kind == pmcdconf.DSO:
		return "error starting a process for " + spec.Path
	}
	return "error starting " + spec.Argv[0]
}

// run starts the process of an agent by the root helper. This process starts it
// with its own rights if there is no root helper, or if the root helper does not
// start the agent because users other than root can change what it executes.
//
// The root helper does not start such an agent as another user: it would have to
// read such a file as root, and to change its user. This process already runs as
// that user.
func (o *Opener) run(ctx context.Context, spec *pmcdconf.Agent, program string, stderr *os.File) (process, *child.Pipes, error) {
	if o.Helper != nil {
		p, err := o.Helper.Start(ctx, spec, stderr)
		var u *roothelper.Untrusted
		switch {
		case err == nil:
			o.rights.Started(spec)
			return p, p.Pipes, nil
		case errors.Is(err, roothelper.ErrLost) && !o.Helper.EndDaemon:
			err = privsep.ErrNoHelper
		case !errors.As(err, &u):
			return nil, nil, err
		}
		if o.onlyRoot {
			return nil, nil, fmt.Errorf("only the root helper can start it: %w", err)
		}
		o.rights.Reduced(spec, err, o.Builtin.lacks(spec, program))
	}
	s, err := o.Builtin.ProcessSpec(spec, program, "", stderr)
	if err != nil {
		return nil, nil, err
	}
	s.Credential = o.Credential
	p, err := o.Starter.Start(s)
	if err != nil {
		return nil, nil, err
	}
	return p, p.Pipes, nil
}

// ProcessSpec returns how the process of an agent is started as a child of this
// process. program is the path of its program, roothelper.Self for a built-in
// agent, or "" if it has not been looked up. user is the user that the host of a
// DSO becomes.
func (table BuiltinAgents) ProcessSpec(a *pmcdconf.Agent, program, user string, stderr *os.File) (child.Spec, error) {
	switch {
	case program == roothelper.Self:
		return table.builtinSpec(a, stderr), nil
	case a.Kind == pmcdconf.DSO:
		return dsohost.Spec(dsohost.DSO{Name: a.Name, Domain: a.Domain, Entry: a.Entry, Path: a.Path, User: user}, stderr)
	}
	argv, _ := child.Substitute(a.Argv)
	return child.Spec{Argv: argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr}, nil
}

// Stop implements transport.Process.
func (c *agentProcess) Stop(ctx context.Context) {
	c.process.Stop(ctx)
	c.stderr.Close()
}

// StderrTail implements transport.Process.
func (c *agentProcess) StderrTail() []string { return c.stderr.Tail() }

// failed stops a process that did not become an agent because of err. It returns
// err with the status and the end of the stderr of the process. With a nil c, which
// is an agent without a process, it returns err.
func (c *agentProcess) failed(err error) error {
	if c == nil {
		return err
	}
	// If it has ended by itself its status says more than err. A process that has
	// closed its output is most likely about to end.
	grace := 20 * time.Millisecond
	if errors.Is(err, io.ErrUnexpectedEOF) {
		grace = 500 * time.Millisecond
	}
	select {
	case <-c.Done():
		err = fmt.Errorf("%w (%v)", err, transport.Ended(c.Status()))
	case <-time.After(grace):
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	c.Stop(ctx)
	return &transport.OpenError{Err: err, StderrTail: c.StderrTail()}
}

// stopTime is how long a process that did not become an agent may take to stop.
const stopTime = time.Second
