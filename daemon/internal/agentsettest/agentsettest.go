// Package agentsettest starts agents in the tests of these packages.
package agentsettest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// Start starts a in this process as the agent of a domain, and returns the table
// with that and the names in tree.
func Start(t *testing.T, domain int, a agents.Agent, tree *pmnsload.Tree) *routes.Table {
	t.Helper()
	table := StartTransport(t, domain, func() transport.Transport { return transport.Local(a) }, tree)
	<-table.Agent(domain).Started()
	return table
}

// StartTransport is Start for an agent that open connects to. It does not wait for
// that.
func StartTransport(t *testing.T, domain int, open func() transport.Transport, tree *pmnsload.Tree) *routes.Table {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	set := agentset.New(agentset.Config{
		Open: func(context.Context, *pmcdconf.Agent, wire.Options) (*transport.Conn, error) {
			return &transport.Conn{Transport: open(), In: -1, Out: -1}, nil
		},
		HandshakeTimeout: func() time.Duration { return time.Minute },
		RequestTimeout:   func() time.Duration { return time.Minute },
		NoRestart:        true,
		Kill:             t.Context(),
		Observer:         noObserver{},
		Counts:           new(pdu.Counts),
		Log:              log,
		Limiter:          diag.NewLogLimiter(log),
		Trace:            diag.NewTrace(0, log),
		Debug:            diag.NewDebug("", log),
	})
	list := []*agentset.Agent{set.NewAgent(&pmcdconf.Agent{Name: "t", Domain: domain, Kind: pmcdconf.DSO})}
	started := make(chan struct{})
	go func() {
		defer close(started)
		set.Start(t.Context(), list)
	}()
	t.Cleanup(func() {
		<-started
		set.Stop(list)
		set.Wait()
	})
	return routes.New(list, tree)
}

// noObserver ignores what happens to agents.
type noObserver struct{}

func (noObserver) AgentReady(*agentset.Agent, bool)     {}
func (noObserver) AgentConnected(*agentset.Conn)        {}
func (noObserver) AgentRestarted(*agentset.Agent, bool) {}
func (noObserver) AgentDisconnected(*agentset.Agent)    {}
func (noObserver) AgentChanged(*agentset.Agent)         {}

// A Namer is an agent whose answer to a request for names is that of a function.
type Namer struct {
	agents.Agent // nil, as is agents.Namer: they are not called
	agents.Namer
	TraverseFunc func() ([]string, error)
}

func (n *Namer) Traverse(context.Context, agents.Origin, string) ([]string, error) {
	return n.TraverseFunc()
}
