// Package ctl is what pmcdctl asks a running pmcd: a Report over a Unix domain
// socket beside the one for clients.
//
// Each connection gets one JSON document and is closed. Nothing is read from it, so no
// request can be malformed. The socket is for root and for the user that pmcd runs as:
// a Report contains the names of clients and the end of what agents wrote to their
// standard error output.
package ctl

import "time"

// A Report is the state of a pmcd. The names of its fields in JSON do not change.
type Report struct {
	Version   string    `json:"version"` // of PCP whose behaviour it has (pmcd.version)
	Build     string    `json:"build"`   // of this program (pmcd.build)
	PID       int       `json:"pid"`
	UID       int       `json:"uid"`
	Now       time.Time `json:"now"` // when this was written
	Started   time.Time `json:"started"`
	Config    string    `json:"config"` // path of pmcd.conf; "" if Embedded
	Namespace string    `json:"namespace"`
	Embedded  bool      `json:"embedded"`  // serves what is compiled in
	Listening []string  `json:"listening"` // as in tcp:127.0.0.1:44321, unix:/run/pcp/pmcd.socket
	Problems  []string  `json:"problems"`  // what an admin has to look at, but for those of one agent
	Agents    []Agent   `json:"agents"`    // in the order of pmcd.conf
	Clients   []Client  `json:"clients"`   // the oldest first
	Reloads   Reloads   `json:"reloads"`

	Goroutines int `json:"goroutines"` // one for each client, and some more
}

// Ready is the State of an Agent that answers.
const Ready = "ready"

// An Agent is one line of pmcd.conf and the state of its agent.
type Agent struct {
	Name       string    `json:"name"`
	Domain     int       `json:"domain"`
	Kind       string    `json:"kind"`  // dso, pipe or socket
	State      string    `json:"state"` // starting, ready, late, not ready, down or fenced
	Since      time.Time `json:"since,omitzero"`
	PID        int       `json:"pid,omitzero"`  // 0 if pmcd has started no process for it
	Note       string    `json:"note,omitzero"` // as in "runs as pcp: /opt/x is writable by bob"
	Restarts   int       `json:"restarts"`
	Failures   int       `json:"failures"` // in a row
	NextStart  time.Time `json:"next_start,omitzero"`
	LastError  string    `json:"last_error,omitzero"`
	ErrorAt    time.Time `json:"error_at,omitzero"`
	StderrTail []string  `json:"stderr_tail,omitzero"` // last lines of its standard error output
	Requests   uint64    `json:"requests"`             // that were answered
	Errors     uint64    `json:"errors"`
	Abandoned  uint64    `json:"abandoned"`
	MeanUS     int64     `json:"mean_us"` // latency, in microseconds
	MaxUS      int64     `json:"max_us"`  // of the last minute or two
}

// A Client is one connection.
type Client struct {
	Number    int32     `json:"number"` // pmcd's, as agents know it
	Address   string    `json:"address"`
	Since     time.Time `json:"since"`
	UID       *int64    `json:"uid,omitzero"` // nil if pmcd does not know
	Whoami    string    `json:"whoami,omitzero"`
	Container string    `json:"container,omitzero"`
	Denied    string    `json:"denied,omitzero"` // operations
}

// Reloads are those since the start.
type Reloads struct {
	Count uint32    `json:"count"`
	Last  time.Time `json:"last,omitzero"`
	Error string    `json:"error,omitzero"` // of the last; "" if it was carried out
}
