package conn

import (
	"math"
	"sync/atomic"
)

// A Limit is how many connections there may be. Each takes one descriptor, and
// agents, reloads and the log must not run out of descriptors.
type Limit struct {
	open      atomic.Int64 // connections that are accepted and not closed
	most      atomic.Int64 // as many may be open; 0 is any number
	listeners int          // listening sockets
}

// full reports whether no connection may be accepted.
func (l *Limit) full() bool {
	most := l.most.Load()
	return most > 0 && l.open.Load() >= most
}

// SetLimit sets how many connections may be open; 0 is any number.
func (l *Limit) SetLimit(n int64) { l.most.Store(n) }

// What the daemon keeps descriptors for, besides clients.
const (
	// reserveDaemon is for the daemon itself: standard files, the log, pollers,
	// signals, watched files, the status socket with eight peers (20 in all),
	// what a reload reads, and the sockets of name look-ups.
	reserveDaemon = 64
	// reserveFiles is for the files of /proc and the sockets that built-in agents
	// in this process keep open: 70 of agent linux. Agents mmv and pmproxy keep none
	// open, and have one at a time.
	reserveFiles = 112
	// reserveDevices is for those of /sys: package sysfile keeps 400, or a
	// sixteenth of the limit, open in each of two sets.
	reserveDevices = 2 * 400
	devicesShare   = 16 / 2
	// reserveAgent is for an agent with a process: a start takes eleven (four ends
	// of pipes, standard error, what os/exec needs, a pidfd), of which four stay,
	// and another process of the agent may serve containers.
	reserveAgent = 16
	// spareAgents is how many agents a reload may add before fewer clients are
	// accepted.
	spareAgents = 4
)

// reserve returns how many descriptors are not for clients in a process that may
// have limit descriptors.
func reserve(limit uint64, listeners, agents int) uint64 {
	return reserveDaemon + reserveFiles + min(reserveDevices, limit/devicesShare) + uint64(listeners+reserveAgent*(agents+spareAgents))
}

// maxConns returns how many connections there may be beside the reserve. The
// reserve has three quarters of the limit at most; short reports that it would
// need more.
func maxConns(limit, reserve uint64) (conns int64, short bool) {
	if most := limit - limit/4; reserve > most {
		reserve, short = most, true
	}
	return int64(max(limit-reserve, 1)), short
}

// A Shortage says that RLIMIT_NOFILE is too low for what pmcd and its agents may
// need.
type Shortage struct {
	Limit uint64 // RLIMIT_NOFILE
	Need  uint64 // descriptors that are not for clients
	Have  int64  // of these
	Conns int64  // how many clients are accepted
}

// Reserve sets the limit such that a process with so many agents and with so many
// descriptors (RLIMIT_NOFILE) does not run out of them. It returns a Shortage if
// there are too few, and whether the limit was another one before.
func (l *Limit) Reserve(agents int, descriptors uint64) (s *Shortage, changed bool) {
	cur := min(descriptors, math.MaxInt32)
	need := reserve(cur, l.listeners, agents)
	conns, short := maxConns(cur, need)
	if short {
		s = &Shortage{Limit: cur, Need: need, Have: int64(cur) - conns, Conns: conns}
	}
	return s, l.most.Swap(conns) != conns
}
