package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/agents/proc"
	"github.com/gopcp/pmcd/daemon"
)

// A child is the process of an agent. Its error output goes to the log.
type child struct {
	*proc.Process
	stderr *proc.Stderr
}

var _ daemon.Process = (*child)(nil)

// start runs run, which starts a process with the standard error output that
// it is given.
func (o opener) start(run func(stderr *os.File) (*proc.Process, error)) (*child, error) {
	stderr, err := proc.NewStderr(o.stderr)
	if err != nil {
		return nil, err
	}
	p, err := run(stderr.File())
	stderr.Started()
	if err != nil {
		stderr.Close()
		return nil, err
	}
	return &child{p, stderr}, nil
}

// Stop implements daemon.Process.
func (c *child) Stop(ctx context.Context) {
	c.Process.Stop(ctx)
	c.stderr.Close()
}

// LastWords implements daemon.Process.
func (c *child) LastWords() []string { return c.stderr.Last() }

// failed ends a process that did not become an agent, because of err, and has
// what is known of that. A nil child is none.
func (c *child) failed(err error) error {
	if c == nil {
		return err
	}
	select { // it may have ended by itself, and how says more
	case <-c.Done():
		err = fmt.Errorf("%w (%v)", err, daemon.Ended(c.Status()))
	case <-time.After(20 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	c.Stop(ctx)
	return &daemon.OpenError{Err: err, LastWords: c.LastWords()}
}

// stopTime is how long an agent that did not get so far may take to end.
const stopTime = time.Second
