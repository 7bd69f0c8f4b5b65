// Package systemd is the protocol with a service manager: notifications
// (sd_notify(3)), the watchdog, and sockets that the manager has opened
// (sd_listen_fds(3)). It works with any manager that has this protocol.
package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/daemon"
)

// Env has the environment variables of a service manager by name (sd_notify(3),
// sd_watchdog_enabled(3), sd_listen_fds(3)).
type Env map[string]string

// TakeEnv removes these variables from the environment and returns them. Agents must
// not have them: they would send notifications, or accept clients, in place of pmcd.
func TakeEnv() Env {
	env := make(Env)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
			os.Unsetenv(name)
		}
	}
	return env
}

// A Notifier notifies the service manager of the state of pmcd (sd_notify(3)). A nil
// Notifier does nothing.
type Notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration // the time between two notifications that it expects; 0 is none

	mu     sync.Mutex // guards the following, and the order of messages that have a status
	status string     // the last that was sent
	ending bool       // the status does not change any more
}

// NewNotifier connects to the socket that env names. It returns nil if env names none.
//
// WATCHDOG_PID is ignored: in daemon mode it is the process id of the script that has
// started pmcd. The watchdog then waits for the process of MAINPID.
func NewNotifier(env Env) (*Notifier, error) {
	addr := env["NOTIFY_SOCKET"]
	if addr == "" {
		return nil, nil
	}
	if addr[0] != '/' && addr[0] != '@' { // @ is for an abstract one, as in package net
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s is neither a path nor an abstract address", addr)
	}
	// The connection stays open: pmcd must be able to notify the watchdog when no
	// descriptors are left.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: addr})
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: %w", addr, message.Errno(err))
	}
	n := &Notifier{conn: conn}
	if usec, err := strconv.ParseUint(env["WATCHDOG_USEC"], 10, 63); err == nil {
		n.watchdog = time.Duration(min(usec, uint64(1<<63-1)/1000)) * time.Microsecond
	}
	return n, nil
}

// Timeout limits how long pmcd waits for a manager.
const Timeout = 5 * time.Second

// send sends one message of lines NAME=value. It ignores errors, as all users of
// sd_notify(3) do: the manager has a timeout of its own.
func (n *Notifier) send(lines ...string) {
	if n == nil {
		return
	}
	n.conn.SetWriteDeadline(time.Now().Add(Timeout))
	n.conn.Write([]byte(strings.Join(lines, "\n")))
}

// state sends lines and, if it has changed, the status.
func (n *Notifier) state(status string, lines ...string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stateLocked(status, lines...)
}

// stateLocked is state for a caller that holds mu.
func (n *Notifier) stateLocked(status string, lines ...string) {
	if n.ending {
		return
	}
	if status != n.status {
		lines = append(lines, "STATUS="+status)
	}
	if len(lines) > 0 {
		n.send(lines...)
	}
	n.status = status
}

// Serving tells the manager that this is the main process of the service.
func (n *Notifier) Serving() {
	n.state("starting agents", fmt.Sprintf("MAINPID=%d", os.Getpid()))
}

// Ready tells the manager that each agent is ready or has failed, after the start or
// after a reload.
func (n *Notifier) Ready(h daemon.Health) {
	n.state(statusText(h), "READY=1", fmt.Sprintf("MAINPID=%d", os.Getpid()))
}

// Changed tells the manager the state of pmcd.
func (n *Notifier) Changed(h daemon.Health) { n.state(statusText(h)) }

// maxStatus limits a status, in bytes: it is one line.
const maxStatus = 1 << 10

// statusText returns h in one line: how many agents are ready, which are not, and the
// problems.
func statusText(h daemon.Health) string {
	text := fmt.Sprintf("serving, %d of %d agents ready", h.Ready, h.Agents)
	for _, more := range slices.Concat(h.Unwell, h.Problems) {
		more = "; " + message.Printable(more)
		if len(text)+len(more) > maxStatus {
			return text + "; ... (pmcdctl status has all)"
		}
		text += more
	}
	return text
}

// Reloading tells the manager that pmcd reloads its configuration. The next state is
// the result of requests that were made before now.
func (n *Notifier) Reloading() {
	n.state("reloading", "RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic()/time.Microsecond))
}

// Stopping tells the manager that pmcd ends. No state is sent after it.
func (n *Notifier) Stopping() { n.Ending("stopping agents") }

// Ending is Stopping with a reason.
func (n *Notifier) Ending(why string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stateLocked(why, "STOPPING=1")
	n.ending = true
}

// Watchdog notifies the watchdog of the manager each time that probe succeeds, until ctx ends.
func (n *Notifier) Watchdog(ctx context.Context, probe func(context.Context) error) {
	if n == nil || n.watchdog == 0 {
		return
	}
	// A probe that failed is repeated before the time of the watchdog is over: an
	// agent that a reload replaces is absent for a moment.
	usual, soon := max(n.watchdog/2, time.Millisecond), max(n.watchdog/8, time.Millisecond)
	next := time.NewTimer(usual)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if probe(ctx) == nil {
			n.send("WATCHDOG=1")
			next.Reset(usual)
		} else {
			next.Reset(soon)
		}
	}
}

// monotonic reads the clock that the manager compares with its own. Package time does
// not export it.
func monotonic() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
