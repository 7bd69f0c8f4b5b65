package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Health is the state of a Daemon as a whole, which a service manager shows in one line.
type Health struct {
	Agents int // in pmcd.conf
	Ready  int // number of these that are ready
	// Unwell has the name and the state of the others, as in "simple is down", in the
	// order of pmcd.conf.
	Unwell []string
	// Problems are those of Daemon.Problems, a reload that failed, and the notes
	// about agents.
	Problems []string
}

// Health reports on the Daemon as a whole.
func (d *Daemon) Health() Health {
	h := Health{Problems: d.Problems()}
	if err := d.reloader.Status().Err; err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		h.Problems = append(h.Problems, "the last reload failed: "+text)
	}
	for _, st := range d.agents() {
		h.Agents++
		if st.State == AgentReady {
			h.Ready++
		} else {
			if st.State == AgentStarting && st.Failures > 0 {
				st.State = AgentDown // so that the status does not change at each try
			}
			h.Unwell = append(h.Unwell, fmt.Sprintf("%s is %s", st.Name, st.State))
		}
		if st.Note != "" {
			h.Problems = append(h.Problems, fmt.Sprintf("%s %s", st.Name, st.Note))
		}
	}
	return h
}

// Problems returns lines about problems that do not keep pmcd from serving: those of
// Manager.Problems, sockets that are not open, addresses that no interface has, a lack of
// descriptors, access rules that are left out, a reload that does not end, TLS that is off because
// of a key or certificate, and a certificate that has expired or expires soon. Each is in the list
// as long as its cause exists. The list does not have a reload that failed, nor problems of one agent, which are in
// its AgentStatus.
func (d *Daemon) Problems() (texts []string) {
	if d.cfg.Manager.Problems != nil {
		texts = d.cfg.Manager.Problems()
	}
	return slices.Concat(texts, d.cfg.Listeners.Unbound(), d.addressProblems(), d.descriptorProblems(), d.reloader.Problems(), d.tlsProblems(time.Now()))
}

// healthTime is the least time between two calls of Manager.Changed, because the state of an
// agent may change often. A call may be late by this time.
const healthTime = 500 * time.Millisecond

// HealthChanged makes Run call Manager.Changed soon. It is cheap and never waits.
func (d *Daemon) HealthChanged() {
	select {
	case d.healthNews <- struct{}{}:
	default: // a value that was not received yet serves for this change, too
	}
}

func (d *Daemon) reportChanged() { d.report(d.cfg.Manager.Changed) }

// reportStarted reports the state of the agents that were started.
func (d *Daemon) reportStarted() { d.report(d.cfg.Manager.AgentsStarted) }

// reportReloading reports that a reload begins.
func (d *Daemon) reportReloading() {
	if d.cfg.Manager.Reloading != nil {
		d.report(func(Health) { d.cfg.Manager.Reloading() })
	}
}

// report calls f, which may be nil and is a function of the Manager,
// with the present Health.
func (d *Daemon) report(f func(Health)) {
	if f == nil {
		return
	}
	d.reporting.Lock()
	defer d.reporting.Unlock()
	f(d.Health())
}
