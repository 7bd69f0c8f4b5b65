// Package agentset keeps pmcd's agents running: it starts each one, watches its
// connection, restarts it when it has failed, and reports its state.
//
// A [Set] has the configuration of its [Agent]s. Each Agent has at most one [Conn], which
// requests use. Its status, log lines and metrics are functions of one state (see
// lifecycle). The package knows neither clients nor sessions. It reports events to an
// [Observer].
package agentset

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Config is the configuration of a Set. All fields must be set except the times,
// NoRestart, MaxReply and Ending.
type Config struct {
	// Open starts or finds the agent of one line of pmcd.conf and connects to it,
	// until ctx ends. Opt is for a connection that speaks the protocol.
	Open func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error)

	// Timeouts that a client can change (pmcd.control).
	HandshakeTimeout func() time.Duration // for an agent to start (-q)
	RequestTimeout   func() time.Duration // for an agent to reply (-t); 0 is never

	// LateGrace is how long an agent may be late before it is stopped and restarted. 0 is
	// 10 times RequestTimeout. If it is negative, the agent is stopped at once.
	LateGrace time.Duration
	NoRestart bool // agents that have failed are started only on request

	MaxReply int // longest reply of an agent, in bytes

	// Ending is closed when the daemon is about to end for a reason that ends agents, too.
	// Failures of agents after that are not logged, and no agent is restarted.
	Ending <-chan struct{}
	// Kill ends when processes of agents that are being stopped must be killed.
	Kill context.Context

	Observer Observer
	Counts   *pdu.Counts // of PDUs to and from agents
	Log      *slog.Logger
	Limiter  *diag.LogLimiter
	Trace    *diag.Trace
	Debug    *diag.Debug
}

// An Observer is notified of changes of agents. Several goroutines call it at a time. They
// hold no lock of this package. The agent waits until a method returns, so a method must
// not wait for the agent, and must not call Acquire or Disconnect.
type Observer interface {
	// AgentReady is called before the agent takes requests, and before Conn returns
	// a connection if it has a new one. NewNames says that the agent was not ready,
	// so its metrics may have other names than before.
	AgentReady(a *Agent, newNames bool)

	// AgentConnected is called when Conn of the agent has begun to return c. Requests
	// use c when it has returned, so the agent is notified of a client before it gets
	// requests of that client.
	AgentConnected(c *Conn)

	// AgentRestarted is called after AgentConnected if the start was a restart after a
	// failure. If quiet is true, the agent has failed so often that the restart should not
	// be logged.
	AgentRestarted(a *Agent, quiet bool)

	// AgentDisconnected is called before Conn of the agent begins to return nil.
	AgentDisconnected(a *Agent)

	// AgentChanged is called when the Status of an agent has changed.
	AgentChanged(a *Agent)
}

// A Set starts and supervises agents. Its methods may be called by several
// goroutines at a time.
type Set struct {
	cfg   Config
	tasks sync.WaitGroup // one superviseLoop for each agent
}

// New returns a Set without agents.
func New(cfg Config) *Set { return &Set{cfg: cfg} }

// ending reports whether the daemon is about to end, before it stops the agents.
func (s *Set) ending() bool { return s.cfg.Ending != nil && closed(s.cfg.Ending) }

// Wait returns when all agents that were stopped are gone. It is called after
// Stop.
func (s *Set) Wait() { s.tasks.Wait() }
