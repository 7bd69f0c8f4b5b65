package daemon

import (
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/quota"
	"github.com/gopcp/pmcd/daemon/internal/reload"
	"github.com/gopcp/pmcd/daemon/internal/session"
)

// A Status is the state of a Daemon at one moment.
type Status struct {
	Agents   []AgentStatus  // in the order of pmcd.conf
	Clients  []ClientStatus // the oldest first
	Limits   []LimitStatus  // for all clients together
	Problems []string       // see Daemon.Problems
	Reloads  ReloadStatus
	Overload *Overload  // the last one, or nil
	TLS      *TLSStatus // nil if TLS is off

	// Goroutines is their number without the idle coroutines of sessions. The number of
	// these depends on how many requests there were at a time.
	Goroutines int
}

// Status returns the present Status. It is called while Run runs.
func (d *Daemon) Status() Status {
	s := Status{Reloads: d.reloader.Status()} // a reload that is counted is over: agents are looked at after it
	s.Agents, s.Clients, s.Limits, s.Problems = d.agents(), d.sessions.Clients.Infos(), d.limits(), d.Problems()
	s.Overload, s.TLS = d.overload.Load(), tlsStatus(d.tls.Load(), time.Now())
	s.Goroutines = runtime.NumGoroutine() - d.sessions.IdleCoroutines()
	return s
}

// An AgentState says whether an agent can take requests.
type AgentState = agentset.StateName

// States of an agent.
const (
	AgentStarting = agentset.Starting
	AgentReady    = agentset.Ready
	AgentLate     = agentset.Late
	AgentNotReady = agentset.NotReady
	AgentDown     = agentset.Down
	AgentFenced   = agentset.Fenced
)

// An AgentStatus has one line of pmcd.conf and the state of its agent.
type AgentStatus = agentset.Status

func (d *Daemon) agents() []AgentStatus {
	list := d.routes.Load().Agents()
	all := make([]AgentStatus, len(list))
	for i, a := range list {
		all[i] = a.Status()
		if d.cfg.Agents.Note != nil {
			all[i].Note = d.cfg.Agents.Note(a.Domain)
		}
	}
	return all
}

// A ClientStatus has the properties of one client.
type ClientStatus = clients.Info

// A ReloadStatus is the number of reloads and the result of the last one.
type ReloadStatus = reload.Status

// A LimitStatus is a limit for all clients together, and its use.
type LimitStatus = quota.Status

func (d *Daemon) limits() []LimitStatus {
	list := d.sessions.Limits()
	if a := d.acceptor.Load(); a != nil {
		s := a.Stats()
		list = slices.Insert(list, 0, LimitStatus{Name: "clients", Used: int64(s.Open), Limit: s.Most})
	}
	return list
}

// minOverload is what an Overload has to last in a minute to be worth a line in the log.
const minOverload = time.Second

// An Overload says that requests were queued, because pmcd had more of them than it
// could answer.
type Overload struct {
	session.Overload
	Until time.Time // when the minute ended that it is about
}

// noteOverload is called each minute.
func (d *Daemon) noteOverload(now time.Time) {
	o := d.sessions.Overload()
	if o.Time < minOverload {
		return
	}
	last := &Overload{o, now}
	d.overload.Store(last)
	last.log(d.log)
}

// log logs o.
func (o Overload) log(log *slog.Logger) {
	message := "pmcd has more requests than it can answer at once: for {overloaded} of the last minute requests were queued. "
	attrs := []any{"overloaded", o.Time.Round(100 * time.Millisecond), "requests", o.Requests}
	if o.OfMost > 0 {
		message += "Of {requests} requests {most} were from {busiest}"
		attrs = append(attrs, "most", o.OfMost, "busiest", o.Most)
	} else {
		message += "There were {requests} requests"
	}
	log.Warn(message+". pmcdctl status --json lists the clients: let them ask less often, or limit the connections of a host or user (maximum N connections in [access] of pmcd.conf)", attrs...)
}
