package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A reload looks at the configuration (pmcd.conf and pmcd.conf.access), the
// name space and the context labels, each by itself. What has changed is read
// and checked as a whole; then it takes the place of the old in one step, or
// the old stays. A request uses what was in force when it came.

// Reload asks for the work of SIGHUP. It is counted in pmcd.sighups when that
// is done, whatever came of it; several that come meanwhile are done at once.
func (d *Daemon) Reload() {
	d.hangups.Add(1)
	d.reloadSoon()
}

func (d *Daemon) reloadSoon() {
	select {
	case d.reloads <- struct{}{}:
	default: // one that has not begun serves for this one too
	}
}

func (d *Daemon) reload(ctx context.Context) {
	if d.cfg.Reloading != nil {
		d.cfg.Reloading()
	}
	asked := d.hangups.Load()
	d.log.Info(fmt.Sprintf("\n\npmcd RESTARTED at %s\n\n", time.Now().Format(time.ANSIC)))
	d.sessions.LogClients("Current PMCD clients ...")
	d.sessions.ResetViolations()
	if changed, err := await(ctx, d.sessions.RefreshLabels); err == nil && changed {
		d.sessions.Notify(pdu.StateLabelChange)
	}
	d.sessions.CheckHostname(time.Now())
	err := errors.Join(d.reloadConf(ctx), d.reloadNames(ctx))
	d.limitClients()
	if ctx.Err() != nil {
		return
	}
	d.reloaded.Store(&ReloadStatus{Last: time.Now(), Err: err})
	// Scripts wait for this and then expect the agents to be there.
	d.hangups.Add(-asked)
	d.sighups.Add(asked)
	d.tellSettled()
}

// await returns what f returns. If ctx ends first that is an error, and f is
// left alone: there is no end to how long a file or a name server can take.
func await[T any](ctx context.Context, f func() T) (v T, err error) {
	c := make(chan T, 1)
	go func() { c <- f() }()
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// confSeen is what tells versions of the configuration apart: the times of
// pmcd.conf and pmcd.conf.access.
type confSeen struct{ conf, access fileSeen }

func seenConf(path string) confSeen {
	s := confSeen{seen(path), seen(path + ".access")}
	s.conf.size, s.access.size = 0, 0
	return s
}

func (d *Daemon) confOptions() pmcdconf.Options {
	return pmcdconf.Options{CredsRequired: d.cfg.CredsRequired}
}

// A confRead is what came of reading the configuration.
type confRead struct {
	seen confSeen
	conf *pmcdconf.Config
	err  error
}

// readConf reads the configuration, unless it is still as it was seen before.
func readConf(path string, before confSeen, opt pmcdconf.Options) (r confRead) {
	if r.seen = seenConf(path); r.seen != before {
		r.conf, r.err = pmcdconf.ParseFile(path, opt)
	}
	return r
}

// describeRead logs what is wrong with a configuration that was read, used or
// not.
func (d *Daemon) describeRead(r confRead) {
	path := d.cfg.ConfigFile
	d.debug.Printf(diag.DebugAgents, "%s: configFileTime=%v accessFileTime=%v", path, r.seen.conf, r.seen.access)
	if r.conf == nil {
		return
	}
	for _, p := range r.conf.Problems {
		d.plain.Warn(p.PCP())
	}
	if d.debug.Shows(diag.DebugConfig) {
		for _, a := range r.conf.Agents {
			d.debug.Printf(diag.DebugConfig, "%v: agent %q (dom %d) %v", a.Pos, a.Name, a.Domain, a)
		}
	}
	d.debug.Printf(diag.DebugRules, "%s:\n%v", path, r.conf.Access)
}

// reloadConf takes a new configuration if there is one, and starts agents that
// are down. It returns why it has left the configuration as it was, although
// that may have changed.
func (d *Daemon) reloadConf(ctx context.Context) error {
	var got confRead
	if d.cfg.Embedded == nil {
		var err error
		path, before, opt := d.cfg.ConfigFile, d.confSeen, d.confOptions()
		if got, err = await(ctx, func() confRead { return readConf(path, before, opt) }); err != nil {
			return err
		}
		if got.seen.conf.err != "" {
			d.plain.Error("ParseRestartAgents: " + got.seen.conf.err)
			d.plain.Info("Configuration left unchanged")
			return errors.New(got.seen.conf.err)
		}
	}
	err := d.takeConf(ctx, got)
	r := d.routes.Load()
	d.warnChanged(r)
	d.logAgents(r)
	d.sessions.LogRules()
	return err
}

// takeConf is reloadConf when it is known what there is.
func (d *Daemon) takeConf(ctx context.Context, got confRead) error {
	path := d.cfg.ConfigFile
	switch {
	case d.cfg.Embedded != nil:
		d.plain.Info("The embedded configuration stays in use until pmcd is started again")
		d.restartDead(ctx)
		return nil
	case got.seen == d.confSeen:
		d.plain.Info(fmt.Sprintf("Configuration file '%s' unchanged", path))
		d.restartDead(ctx)
		return nil
	}
	// The time of a file that is rejected is not remembered as confSeen: as long as
	// it is not in force, each reload says so.
	//
	// C pmcd differs: the second reload takes it for unchanged.
	again := got.seen == d.confRejected
	d.confRejected = got.seen
	d.describeRead(got)
	var err error
	switch {
	case got.err != nil:
		err = fmt.Errorf("Configuration file '%s' has errors", path)
		d.plain.Error(err.Error())
		d.log.Error(got.err.Error())
		err = fmt.Errorf("%w: %w", err, got.err)
	case len(got.conf.Agents) == 0:
		err = fmt.Errorf("Configuration file '%s' has no valid agents", path)
		d.plain.Error(err.Error())
	default:
		d.confSeen, d.confRejected = got.seen, confSeen{}
		d.reconcile(ctx, got.conf)
		return nil
	}
	d.plain.Info("Configuration left unchanged")
	if again {
		d.restartDead(ctx)
	}
	return err
}

// warnChanged logs which agents run something that has changed on disk.
func (d *Daemon) warnChanged(r *routes.Table) {
	for _, a := range r.Agents() {
		if l := a.Conn(); l != nil && l.Changed != nil {
			if err := l.Changed(); err != nil {
				d.log.Warn(err.Error())
			}
		}
	}
}

// restartDead starts the agents that are down.
func (d *Daemon) restartDead(ctx context.Context) {
	var dead []*agentset.Agent
	text := "Restarting any deceased agents:"
	for _, a := range d.routes.Load().Agents() {
		if a.Conn() == nil {
			dead = append(dead, a)
			text += fmt.Sprintf("\n    %q agent", a.Name())
		}
	}
	if len(dead) == 0 {
		d.plain.Info(text + "\n    (no agents required restarting)")
		return
	}
	d.plain.Info(text + "\n")
	d.agentSet.Start(ctx, dead)
	d.seqnum.Add(1)
	d.sessions.Notify(pdu.StateRestartAgent | added(dead))
}

// added is the state change after list was started.
func added(list []*agentset.Agent) int32 {
	for _, a := range list {
		if a.Conn() != nil {
			return pdu.StateAddAgent
		}
	}
	return 0
}

// reconcile makes the agents those of conf: what has not changed goes on, what
// has gone is dropped, what is new, changed or dead is started.
func (d *Daemon) reconcile(ctx context.Context, conf *pmcdconf.Config) {
	old := d.routes.Load()
	list := make([]*agentset.Agent, len(conf.Agents))
	kept := make(map[*agentset.Agent]bool)
	var fresh []*agentset.Agent
	for i := range conf.Agents {
		spec := &conf.Agents[i]
		if a := old.Agent(spec.Domain); a != nil && a.Conn() != nil && a.Spec().Same(*spec) {
			a.SetSpec(spec) // the name may be another
			list[i], kept[a] = a, true
			continue
		}
		list[i] = d.agentSet.NewAgent(spec)
		fresh = append(fresh, list[i])
	}
	var leaving []*agentset.Agent
	for _, a := range old.Agents() {
		if kept[a] {
			continue
		}
		leaving = append(leaving, a)
		for _, b := range fresh {
			if inTheWay(a.Spec(), b.Spec()) {
				b.StartAfter(a)
			}
		}
	}
	d.routes.Store(old.WithAgents(list))
	d.sessions.ApplyRules(conf.Access)
	var wg sync.WaitGroup
	for _, a := range leaving {
		wg.Go(func() { a.DrainAndStop(ctx) })
	}
	d.agentSet.Start(ctx, fresh)
	wg.Wait()
	if bits := added(fresh); bits != 0 {
		d.sessions.Notify(bits)
	}
}

// inTheWay reports whether old has to be gone before the agent of spec can be
// started: there is one agent of a domain at a time, and one at an address.
func inTheWay(old, spec *pmcdconf.Agent) bool {
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
