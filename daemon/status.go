package daemon

import (
	"runtime"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pmcdconf"
)

// An AgentState is what an agent is able to do.
type AgentState string

// States of an agent.
const (
	AgentStarting AgentState = "starting"  // is started, or connected to
	AgentReady    AgentState = "ready"     // answers
	AgentLate     AgentState = "late"      // has not answered in time, and still owes that answer
	AgentNotReady AgentState = "not ready" // has said so itself
	AgentDown     AgentState = "down"      // has ended, or could not be started
	AgentFenced   AgentState = "fenced"    // is connected, and clients are kept away (pmcd.agent.fenced)
)

// An AgentStatus is one line of pmcd.conf and how its agent does. Counts begin
// with the daemon, or with the reload that has changed the line.
type AgentStatus struct {
	Name   string
	Domain int
	Kind   string // "dso", "pipe" or "socket", as in pmcd.conf
	State  AgentState
	Since  time.Time // when it got into State
	PID    int       // of the process that pmcd started for it; 0 if there is none
	Note   string    // what an admin should know about it: Config.AgentNote; "" is nothing

	Restarts   int       // starts that succeeded, but for the first
	Failures   int       // ends and failed starts since it last was up for a minute
	NextStart  time.Time // of an agent that is down; zero if it is not started again by itself
	LastError  string    // why it ended, or could not be started, the last time; "" if it never did
	ErrorAt    time.Time // when that was; zero if never
	StderrTail []string  // last lines of its error output before that, or the stack of its panic

	Requests  uint64        // answers
	Errors    uint64        // requests that it did not answer, or with nonsense
	Abandoned uint64        // those of Errors whose answer was waited for in vain
	Mean      time.Duration // from request to answer, mean of about the last 16 that were waited for
	Max       time.Duration // the longest of the last minute, or of up to two
}

// Agents reports on all agents, in the order of pmcd.conf.
func (d *Daemon) Agents() []AgentStatus {
	list := d.routes.Load().list
	all := make([]AgentStatus, len(list))
	for i, a := range list {
		all[i] = a.report()
		if d.cfg.AgentNote != nil {
			all[i].Note = d.cfg.AgentNote(a.domain)
		}
	}
	return all
}

func (a *agent) report() AgentStatus {
	spec := a.spec.Load()
	st := AgentStatus{Name: spec.Name, Domain: a.domain, Kind: "dso"}
	switch spec.Kind {
	case pmcdconf.Pipe:
		st.Kind = "pipe"
	case pmcdconf.Socket:
		st.Kind = "socket"
	}
	a.lifecycle.report(&st)
	a.latency.report(&st, time.Now())
	return st
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
	sessions := d.sessions()
	all := make([]ClientStatus, len(sessions))
	for i, s := range sessions {
		info := s.info()
		all[i] = ClientStatus{
			Number: s.num, Address: s.addr, Since: s.since,
			UID: info.UID, Whoami: info.Whoami, Container: info.Container,
		}
		if s.peer.Family == access.Unix {
			all[i].Address = "unix:" + s.addr
		}
		if op := s.denied(); op != 0 {
			all[i].Denied = op.String()
		}
	}
	return all
}

// A ReloadStatus is what has become of requests to reload.
type ReloadStatus struct {
	Count uint32    // as pmcd.sighups
	Last  time.Time // zero if there was none
	Err   error     // why the last was not carried out, or not all of it
}

// Goroutines is how many there are, but for coroutines that are kept for
// requests to come: those depend on how many requests there once were at a time.
func (d *Daemon) Goroutines() int { return runtime.NumGoroutine() - d.turnPool.Idle() }

// Reloads reports on reloads.
func (d *Daemon) Reloads() ReloadStatus {
	st := ReloadStatus{Count: d.sighups.Load()}
	if last := d.reloaded.Load(); last != nil {
		st.Last, st.Err = last.Last, last.Err
	}
	return st
}
