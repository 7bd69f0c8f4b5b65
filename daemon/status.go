package daemon

import (
	"runtime"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/reload"
)

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

// Agents returns the status of all agents, in the order of pmcd.conf.
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

// A ClientStatus has the properties of one client.
type ClientStatus = clients.Info

// Clients returns the status of all clients, the oldest first.
func (d *Daemon) Clients() []ClientStatus { return d.sessions.Clients.Infos() }

// A ReloadStatus is the number of reloads and the result of the last one.
type ReloadStatus = reload.Status

// Goroutines returns the number of goroutines without the idle coroutines of sessions.
// The number of idle coroutines depends on how many requests there were at a time.
func (d *Daemon) Goroutines() int { return runtime.NumGoroutine() - d.sessions.IdleCoroutines() }

// Reload requests a reload, as SIGHUP does, and returns. pmcd.sighups counts it when it
// is done, also if it has failed. One reload serves all requests that arrive before it
// begins. RLIMIT_NOFILE is read at once, since a reload that waits for agents may take long.
func (d *Daemon) Reload() {
	if d.acceptor.Load() != nil {
		d.limitClients()
	}
	d.reloader.Request()
}

// Reloads returns the status of reloads.
func (d *Daemon) Reloads() ReloadStatus { return d.reloader.Status() }
