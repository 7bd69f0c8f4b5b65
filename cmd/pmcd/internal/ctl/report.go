// Package ctl transfers a Report from a running pmcd to pmcdctl, over a Unix domain socket
// in the directory of the socket for clients.
//
// Each connection gets one JSON document and is closed. pmcd reads nothing from it, so no
// request can be malformed. Only root and the user that pmcd runs as may use the socket,
// because a Report has the names of clients, and the end of the standard error output of
// agents.
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
	Embedded  bool      `json:"embedded"`          // serves what is compiled in
	Listening []string  `json:"listening"`         // as in tcp:127.0.0.1:44321, unix:/run/pcp/pmcd.socket
	Problems  []string  `json:"problems"`          // what needs an admin's attention, without the problems of one agent
	Agents    []Agent   `json:"agents"`            // in the order of pmcd.conf
	Clients   []Client  `json:"clients"`           // the oldest first
	Limits    []Limit   `json:"limits"`            // for all clients together
	Overload  *Overload `json:"overload,omitzero"` // the last one; nil if there was none
	Reloads   Reloads   `json:"reloads"`
	TLS       *TLS      `json:"tls,omitzero"` // nil if it is off

	Goroutines int `json:"goroutines"` // one for each client, and some more
}

// TLS describes the certificate of pmcd.
type TLS struct {
	Subject string    `json:"subject"`
	Expires time.Time `json:"expires"` // or an issuer in the same file does, if that is earlier
}

// A Limit is a limit for all clients together, and its use.
type Limit struct {
	Name         string    `json:"name"` // as in the section LIMITS of pmcd(1)
	Unit         string    `json:"unit"` // "bytes", or "" for a number
	Used         int64     `json:"used"`
	Limit        int64     `json:"limit"`         // 0 means no limit
	Disconnected int64     `json:"disconnected"`  // clients, because of the limit
	Last         string    `json:"last,omitzero"` // address of the last of these
	LastAt       time.Time `json:"last_at,omitzero"`
}

// An Overload says that in a minute pmcd had more requests than it could answer at once, so
// that requests were queued.
type Overload struct {
	Until    time.Time `json:"until"`    // the end of the minute
	TimeMS   int64     `json:"time_ms"`  // for how long requests were queued in this minute
	Requests uint64    `json:"requests"` // of all clients in this time
	Most     string    `json:"most"`     // the user at the Unix socket, or the host, with the most requests
	OfMost   uint64    `json:"of_most"`  // its requests, or a few less
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
