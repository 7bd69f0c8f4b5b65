package daemon

import (
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// sockets are those of clients. Each is one descriptor. There are so few of them
// that agents, reloads and the log do not run out of descriptors.
type sockets struct {
	open      atomic.Int64 // accepted and not closed yet
	limit     atomic.Int64 // as many may be open; 0 is any number
	listeners int          // listening sockets; set before the first client
	closer    closer       // of Unix sockets that hold no descriptors
	held      closer       // of those that may
}

// full reports whether no client may be accepted.
func (k *sockets) full() bool {
	limit := k.limit.Load()
	return limit > 0 && k.open.Load() >= limit
}

// What the daemon keeps descriptors for, beside clients.
const (
	// reserveDaemon is for the daemon itself: standard files, the log, pollers,
	// signals, watched files, the status socket with eight peers (20 in all),
	// what a reload reads, and the sockets of name look-ups.
	reserveDaemon = 64
	// reserveFiles is for the files of /proc and the sockets that built-in agents
	// in this process keep open: 70 of agent linux.
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

// reserve is how many descriptors are not for clients where a process may have
// so many.
func reserve(limit uint64, listeners, agents int) uint64 {
	return reserveDaemon + reserveFiles + min(reserveDevices, limit/devicesShare) + uint64(listeners+reserveAgent*(agents+spareAgents))
}

// maxClients is how many clients there may be beside the reserve. That has three
// quarters of the limit at most; short reports that it would need more.
func maxClients(limit, reserve uint64) (clients int64, short bool) {
	if most := limit - limit/4; reserve > most {
		reserve, short = most, true
	}
	return int64(max(limit-reserve, 1)), short
}

// limitClients sets the limit for clients, by the agents that there are.
func (d *Daemon) limitClients() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		d.log.Warn(fmt.Sprintf("the number of clients is not limited: getrlimit: %v", err))
		return
	}
	cur := min(limit.Cur, math.MaxInt32)
	need := reserve(cur, d.sockets.listeners, len(d.routes.Load().list))
	clients, short := maxClients(cur, need)
	if was := d.sockets.limit.Swap(clients); was == clients || !short {
		return
	}
	d.log.Warn(fmt.Sprintf("RLIMIT_NOFILE is %d: pmcd and its agents may need %d descriptors and have %d, and at most %d clients are accepted; raise it (LimitNOFILE=, ulimit -n)",
		cur, need, int64(cur)-clients, clients))
}
