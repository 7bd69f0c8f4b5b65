package daemon

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An OpenFunc starts the agent of one line of pmcd.conf, if pmcd starts it, and connects to
// it. It returns an error if ctx ends first. opt are the options of the connection to an
// agent that uses the protocol.
type OpenFunc func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error)

// A PreloadFunc does the part of the start of an agent that may be done before pmdaroot has
// started. An OpenFunc is called with the same spec later, and does the rest. If the PreloadFunc
// fails, the OpenFunc does all and returns the error. Discard is called after the OpenFunc, and
// ends what that has not used.
type PreloadFunc func(ctx context.Context, spec *pmcdconf.Agent) (discard func())

// newAgentSet returns the Set for the agents of d.
func (d *Daemon) newAgentSet() *agentset.Set {
	return agentset.New(agentset.Config{
		Open:             d.openAgent,
		Preload:          d.preloadAgent,
		HandshakeTimeout: func() time.Duration { return time.Duration(d.credsTimeout.Load()) },
		RequestTimeout:   func() time.Duration { return time.Duration(d.timeout.Load()) },
		LateGrace:        d.cfg.LateGrace,
		NoRestart:        d.cfg.NoRestart,
		MaxReply:         d.cfg.MaxReply,
		Ending:           d.cfg.Ending,
		Kill:             d.stopping,
		Observer:         agentObserver{d},
		Counts:           &d.counts,
		Log:              d.log,
		Limiter:          d.limiter,
		Trace:            d.trace,
		Debug:            d.debug,
	})
}

// openAgent connects to the agent of spec.
func (d *Daemon) openAgent(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
	if !isOwn(spec) {
		return d.cfg.Open(ctx, spec, opt)
	}
	var h pmcd.Host = host{d}
	if d.cfg.wrapHost != nil {
		h = d.cfg.wrapHost(h)
	}
	agent := pmcd.New(spec.Domain, spec.Name, h, pmcd.Config{
		RunDir: d.cfg.RunDir, TmpDir: d.cfg.TmpDir, Build: d.cfg.Build,
		LocalTime: "/etc/localtime", ZoneInfoDir: "/usr/share/zoneinfo",
	})
	tr := transport.Inline(agent)
	tr.LimitReplies(d.cfg.MaxReply)
	// The interface is that of the agent in its place in C pmcd, for the log.
	return &transport.Conn{Transport: tr, In: -1, Out: -1, Interface: 6}, nil
}

// preloadAgent begins the start of the agent of spec.
func (d *Daemon) preloadAgent(ctx context.Context, spec *pmcdconf.Agent) (discard func()) {
	if d.cfg.Preload == nil || isOwn(spec) {
		return func() {}
	}
	return d.cfg.Preload(ctx, spec)
}

// isOwn reports whether the agent of spec is the one for pmcd's own metrics.
func isOwn(spec *pmcdconf.Agent) bool {
	return spec.Kind == pmcdconf.DSO && spec.Entry == pmcdconf.PMCDEntry
}

// An agentObserver notifies clients and the rest of the Daemon of changes of agents.
type agentObserver struct{ d *Daemon }

var _ agentset.Observer = agentObserver{}

func (o agentObserver) AgentReady(a *agentset.Agent, newNames bool) {
	o.d.sessions.NamesBack(a.Domain) // before clients can find the agent
	if newNames {
		o.d.reloader.RequestNames()
	}
}

func (o agentObserver) AgentConnected(c *agentset.Conn) {
	o.d.seqnum.Add(1)
	o.d.sessions.AgentConnected(c)
}

func (o agentObserver) AgentRestarted(_ *agentset.Agent, quiet bool) {
	d := o.d
	d.seqnum.Add(1)
	d.sessions.Notify(pdu.StateAddAgent | pdu.StateRestartAgent)
	// The table is long if there are many agents, and many may be restarted.
	if !quiet && d.limiter.Allow("table of agents") {
		d.agentSet.LogTable(d.routes.Load().Agents())
	}
}

func (o agentObserver) AgentDisconnected(*agentset.Agent) { o.d.sessions.Notify(pdu.StateDropAgent) }

func (o agentObserver) AgentChanged(*agentset.Agent) { o.d.HealthChanged() }
