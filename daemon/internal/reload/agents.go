package reload

import (
	"context"
	"fmt"
	"sync"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// warnChanged logs which agents run an older version of their file.
func (r *Reloader) warnChanged(agents []*agentset.Agent) {
	for _, a := range agents {
		if c := a.Conn(); c != nil && c.Changed != nil {
			if err := c.Changed(); err != nil {
				r.cfg.Log.Warn("{error}", "error", err, "agent", a.Name(), "domain", a.Domain, logtext.Event("plugin_changed"))
			}
		}
	}
}

// restartDead starts the agents that are down.
func (r *Reloader) restartDead(ctx context.Context) {
	var dead []*agentset.Agent
	text := "Restarting any deceased agents:"
	for _, a := range r.cfg.Routes.Load().Agents() {
		if a.Conn() == nil {
			dead = append(dead, a)
			text += fmt.Sprintf("\n    %q agent", a.Name())
		}
	}
	if len(dead) == 0 {
		r.plain.Info(text+"\n    (no agents required restarting)", logtext.Event("agents_restarted"))
		return
	}
	r.plain.Info(text+"\n", logtext.Event("agents_restarted"))
	r.step("starts agents")
	r.cfg.Agents.Start(ctx, dead)
	r.cfg.Seqnum.Add(1)
	r.cfg.Clients.Notify(pdu.StateRestartAgent | added(dead))
}

// added returns the state change that clients are notified of after the start of list.
func added(list []*agentset.Agent) int32 {
	for _, a := range list {
		if a.Conn() != nil {
			return pdu.StateAddAgent
		}
	}
	return 0
}

// reconcile makes the agents those of conf. It keeps agents whose line has not changed and starts
// those of them that are down, stops agents that are no longer in conf, and starts agents that are
// new or changed.
func (r *Reloader) reconcile(ctx context.Context, conf *pmcdconf.Config) {
	old := r.cfg.Routes.Load()
	list := make([]*agentset.Agent, len(conf.Agents))
	unchanged := make(map[*agentset.Agent]bool)
	var start []*agentset.Agent
	for i := range conf.Agents {
		spec := &conf.Agents[i]
		a := old.Agent(spec.Domain)
		if a != nil && a.Spec().Same(*spec) {
			a.SetSpec(spec) // the name may have changed
			unchanged[a] = true
		} else {
			a = r.cfg.Agents.NewAgent(spec)
		}
		if list[i] = a; a.Conn() == nil {
			start = append(start, a)
		}
	}
	var stopping []*agentset.Agent
	for _, a := range old.Agents() {
		if unchanged[a] {
			continue
		}
		stopping = append(stopping, a)
		for _, b := range start {
			if !unchanged[b] && conflicts(a.Spec(), b.Spec()) {
				b.StartAfter(a)
			}
		}
	}
	r.cfg.Routes.Store(old.WithAgents(list))
	var wg sync.WaitGroup
	for _, a := range stopping {
		wg.Go(func() { a.DrainAndStop(ctx) })
	}
	wg.Go(func() { r.cfg.Agents.Start(ctx, start) }) // requests wait for it, so it does not wait for look-ups
	r.applyRules(ctx, conf)                          // if ctx has ended, agents end, too
	r.step("starts and stops agents")
	wg.Wait()
	if bits := added(start); bits != 0 {
		r.cfg.Clients.Notify(bits)
	}
}

// conflicts reports whether the process of old must have ended before the agent of spec
// can be started. They conflict if they have the same domain or the same address.
func conflicts(old, spec *pmcdconf.Agent) bool {
	if old.Domain == spec.Domain {
		return true
	}
	if old.Kind != pmcdconf.Socket || spec.Kind != pmcdconf.Socket || old.Family != spec.Family {
		return false
	}
	if old.Family == access.Unix {
		return old.Address == spec.Address
	}
	return old.Port == spec.Port
}
