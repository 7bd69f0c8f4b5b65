package daemon

import (
	"context"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An OpenFunc starts the agent of one line of pmcd.conf, if pmcd starts it, and connects to
// it. It returns an error if ctx ends first. opt are the options of the connection to an
// agent that uses the protocol.
type OpenFunc func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error)

// newAgentSet returns the Set for the agents of d.
func (d *Daemon) newAgentSet() *agentset.Set {
	return agentset.New(agentset.Config{
		Open:             d.openAgent,
		HandshakeTimeout: func() time.Duration { return time.Duration(d.credsTimeout.Load()) },
		RequestTimeout:   func() time.Duration { return time.Duration(d.timeout.Load()) },
		LateGrace:        d.cfg.Agents.LateGrace,
		NoRestart:        d.cfg.Agents.NoRestart,
		MaxReply:         d.cfg.Limits.Reply,
		Ending:           d.cfg.Agents.Ending,
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
	if spec.Kind != pmcdconf.DSO || spec.Entry != pmcdconf.PMCDEntry {
		return d.cfg.Agents.Open(ctx, spec, opt)
	}
	var h pmcd.Host = host{d}
	if d.cfg.hooks.wrapHost != nil {
		h = d.cfg.hooks.wrapHost(h)
	}
	agent := pmcd.New(spec.Domain, spec.Name, h, pmcd.Config{
		RunDir: d.cfg.Host.RunDir, TmpDir: d.cfg.Host.TmpDir, Build: d.cfg.Host.Build,
		LocalTime: "/etc/localtime", ZoneInfoDir: "/usr/share/zoneinfo",
	})
	tr := transport.Inline(agent)
	tr.LimitReplies(d.cfg.Limits.Reply)
	// The interface is that of the agent in its place in C pmcd, for the log.
	return &transport.Conn{Transport: tr, In: -1, Out: -1, Interface: 6}, nil
}

// An agentObserver notifies clients and the rest of the Daemon of changes of agents.
type agentObserver struct{ d *Daemon }

var _ agentset.Observer = agentObserver{}

func (o agentObserver) AgentReady(a *agentset.Agent, newNames bool) {
	o.d.sessions.Missing.Back(a.Domain) // before clients can find the agent
	if newNames {
		o.d.reloader.RequestNames()
	}
}

func (o agentObserver) AgentConnected(c *agentset.Conn) {
	o.d.seqnum.Add(1)
	o.d.sessions.Clients.AgentConnected(c)
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
