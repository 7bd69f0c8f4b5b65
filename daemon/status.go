package daemon

import (
	"runtime"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/reload"
)

// An AgentState is what an agent is able to do.
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

// An AgentStatus is one line of pmcd.conf and the state of its agent.
type AgentStatus = agentset.Status

// Agents reports on all agents, in the order of pmcd.conf.
func (d *Daemon) Agents() []AgentStatus {
	list := d.routes.Load().Agents()
	all := make([]AgentStatus, len(list))
	for i, a := range list {
		all[i] = a.Status()
		if d.cfg.AgentNote != nil {
			all[i].Note = d.cfg.AgentNote(a.Domain)
		}
	}
	return all
}

// A ClientStatus is one connection.
type ClientStatus struct {
	Number    int32 // as agents know it
	Address   string
	Since     time.Time
	UID       int64 // -1 if it is not known
	Whoami    string
	Container string
	Denied    string // operations; "" is none
}

// Clients reports on all clients, the oldest first.
func (d *Daemon) Clients() []ClientStatus {
	list := d.sessions.Clients()
	all := make([]ClientStatus, len(list))
	for i, c := range list {
		all[i] = ClientStatus{
			Number: c.Number, Address: c.Address, Since: c.Since,
			UID: c.UID, Whoami: c.Whoami, Container: c.Container,
		}
		if c.Unix {
			all[i].Address = "unix:" + c.Address
		}
		if c.Denied != 0 {
			all[i].Denied = c.Denied.String()
		}
	}
	return all
}

// A ReloadStatus is what has become of requests to reload.
type ReloadStatus = reload.Status

// Goroutines is how many there are, but for coroutines that are kept for
// requests to come: those depend on how many requests there once were at a time.
func (d *Daemon) Goroutines() int { return runtime.NumGoroutine() - d.sessions.IdleTurns() }

// Reload asks for the work of SIGHUP. It is counted in pmcd.sighups when that
// is done, whatever came of it; several that come meanwhile are done at once.
func (d *Daemon) Reload() { d.reloader.Request() }

// Reloads reports on reloads.
func (d *Daemon) Reloads() ReloadStatus { return d.reloader.Status() }

// Named returns when the name space is read for the first time, or why it
// cannot be.
func (d *Daemon) Named() error { return d.reloader.Named() }
