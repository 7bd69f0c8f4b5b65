package agentset

import (
	"time"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A StateName is the state of an agent as an admin sees it.
type StateName string

// States of an agent.
const (
	Starting StateName = "starting"  // is started, or connected to
	Ready    StateName = "ready"     // answers
	Late     StateName = "late"      // has not answered in time, and the answer is still to come
	NotReady StateName = "not ready" // has said so itself
	Down     StateName = "down"      // has ended, or could not be started
	Fenced   StateName = "fenced"    // is connected, and clients are kept away (pmcd.agent.fenced)
)

// A Status is one line of pmcd.conf and the state of its agent. Counts begin with the
// daemon, or with the reload that has changed the line.
type Status struct {
	Name   string
	Domain int
	Kind   string // "dso", "pipe" or "socket", as in pmcd.conf
	State  StateName
	Since  time.Time // when it got into State
	PID    int       // of the process that pmcd started for it; 0 if there is none
	Note   string    // what an admin should know about it: Config.AgentNote of the daemon; "" is nothing

	Restarts   int       // starts that succeeded, but for the first
	Failures   int       // ends and failed starts since it last was up for a minute
	NextStart  time.Time // of an agent that is down; zero if it is not started again by itself
	LastError  string    // why it ended, or could not be started, the last time; "" if it never did
	ErrorAt    time.Time // when that was; zero if never
	StderrTail []string  // last lines of its error output before that, or the stack of its panic

	Requests  uint64        // answers
	Errors    uint64        // requests that failed: without an answer, or with one that was invalid
	Abandoned uint64        // those of Errors that had no answer in time
	Mean      time.Duration // from request to answer, mean of about the last 16 that were waited for
	Max       time.Duration // the longest of the last minute, or of up to two
}

// Status reports on a. Note is empty.
func (a *Agent) Status() Status {
	spec := a.Spec()
	st := Status{Name: spec.Name, Domain: a.Domain, Kind: "dso"}
	switch spec.Kind {
	case pmcdconf.Pipe:
		st.Kind = "pipe"
	case pmcdconf.Socket:
		st.Kind = "socket"
	}
	a.life.report(&st)
	a.latency.report(&st, time.Now())
	return st
}

// StatusCode returns pmcd.agent.status.
func (a *Agent) StatusCode() int32 { return a.life.statusCode() }
