package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Reload asks for the work of SIGHUP: Run reads the configuration and the
// name space again if they have changed, and starts agents that are down.
func (d *Daemon) Reload() {
	d.hangups.Add(1)
	select {
	case d.reloads <- struct{}{}:
	default: // one that has not begun serves for this one too
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

// loadConf returns the configuration. What is wrong with its file is logged.
func (d *Daemon) loadConf() (*pmcdconf.Config, error) {
	if e := d.cfg.Embedded; e != nil {
		return e.Conf, nil
	}
	conf, err := pmcdconf.ParseFile(d.cfg.ConfigFile, pmcdconf.Options{CredsRequired: d.credsReqd.Load()})
	if conf != nil {
		for _, w := range conf.Problems {
			d.plain.Warn(w.PCP())
		}
	}
	return conf, err
}

func (d *Daemon) reload(ctx context.Context) {
	if d.cfg.Reloading != nil {
		d.cfg.Reloading()
	}
	asked := d.hangups.Load()
	d.log.Info(fmt.Sprintf("\n\npmcd RESTARTED at %s\n\n", time.Now().Format(time.ANSIC)))
	d.describeClients()
	d.violations.reset()
	err := d.reloadAgents(ctx)
	r := d.routes.Load()
	d.warnChanged(r)
	d.describeAgents(r)
	d.describeAccess()
	err = errors.Join(err, d.reloadNames())
	if d.refreshLabels() {
		d.notice(pdu.StateLabelChange)
	}
	d.reloaded.Store(&ReloadStatus{Last: time.Now(), Err: err})
	// Scripts wait for this and then expect the agents to be there.
	d.hangups.Add(-asked)
	d.sighups.Add(asked)
	d.tellSettled()
}

// reloadAgents returns why it has left the configuration as it was, although
// that may have changed.
func (d *Daemon) reloadAgents(ctx context.Context) error {
	if d.cfg.Embedded != nil {
		d.plain.Info("The embedded configuration stays in use until pmcd is started again")
		d.restartDead(ctx)
		return nil
	}
	path := d.cfg.ConfigFile
	now := seenConf(path)
	switch {
	case now.conf.err != "":
		err := fmt.Errorf("%s: %s", path, now.conf.err)
		d.log.Error(err.Error())
		d.log.Info("Configuration left unchanged")
		return err
	case now == d.confSeen:
		d.plain.Info(fmt.Sprintf("Configuration file '%s' unchanged", path))
		d.restartDead(ctx)
		return nil
	}
	d.confSeen = now
	conf, err := d.loadConf()
	switch {
	case err != nil:
		err = fmt.Errorf("Configuration file '%s' has errors: %w", path, err)
	case len(conf.Agents) == 0:
		err = fmt.Errorf("Configuration file '%s' has no valid agents", path)
	default:
		d.reconcile(ctx, conf)
		return nil
	}
	d.log.Error(err.Error())
	d.log.Info("Configuration left unchanged")
	return err
}

// warnChanged logs which agents run something that has changed on disk.
func (d *Daemon) warnChanged(r *routes) {
	for _, a := range r.list {
		if l := a.link.Load(); l != nil && l.Changed != nil {
			if err := l.Changed(); err != nil {
				d.log.Warn(err.Error())
			}
		}
	}
}

// restartDead starts the agents that are down.
func (d *Daemon) restartDead(ctx context.Context) {
	var dead []*agent
	text := "Restarting any deceased agents:"
	for _, a := range d.routes.Load().list {
		if a.link.Load() == nil {
			dead = append(dead, a)
			text += fmt.Sprintf("\n    %q agent", a.name())
		}
	}
	if len(dead) == 0 {
		d.plain.Info(text + "\n    (no agents required restarting)")
		return
	}
	d.plain.Info(text)
	d.startAgents(ctx, dead)
	d.seqnum.Add(1)
	bits := int32(pdu.StateRestartAgent)
	for _, a := range dead {
		if a.link.Load() != nil {
			bits |= pdu.StateAddAgent
		}
	}
	d.notice(bits)
}

// reconcile makes the agents those of conf: what has not changed goes on,
// what has gone is dropped, what is new, changed or dead is started.
func (d *Daemon) reconcile(ctx context.Context, conf *pmcdconf.Config) {
	old := d.routes.Load()
	list := make([]*agent, len(conf.Agents))
	var start []*agent
	kept := make(map[*agent]bool)
	for i := range conf.Agents {
		spec := &conf.Agents[i]
		if a := old.agent(spec.Domain); a != nil && a.link.Load() != nil && a.spec.Load().Same(*spec) {
			a.spec.Store(spec) // the name may be another
			list[i], kept[a] = a, true
			continue
		}
		list[i] = newAgent(spec)
		if was := old.agent(spec.Domain); was != nil {
			list[i].after = was.gone
		}
		start = append(start, list[i])
	}
	for _, a := range old.list {
		if !kept[a] {
			d.retire(a, errUnconfigured)
		}
	}
	d.routes.Store(newRoutes(list, old.tree))
	d.applyRules(conf.Access)
	d.startAgents(ctx, start)
	for _, a := range start {
		if a.link.Load() != nil {
			d.notice(pdu.StateAddAgent)
			break
		}
	}
}
