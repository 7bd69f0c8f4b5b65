package main

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

// managerEnv is what a service manager has to say to this process, by name
// (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)). Agents must not
// have it: they would speak, or listen, for pmcd.
type managerEnv map[string]string

// takeManagerEnv removes it from the environment.
func takeManagerEnv() managerEnv {
	env := make(managerEnv)
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
			os.Unsetenv(name)
		}
	}
	return env
}

// A notifier tells the service manager how pmcd is doing (sd_notify(3)). A nil
// one does nothing.
type notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration // how often it wants to hear of us; 0 is never

	mu     sync.Mutex // guards the following, and the order of messages that have a status
	status string     // the last that was sent
	ending bool       // the status stays what it is
}

// newNotifier connects to the socket that env names, if it does.
//
// WATCHDOG_PID does not count: in daemon mode it is that of the script which
// started us, and MAINPID then has the watchdog wait for us.
func newNotifier(env managerEnv) (*notifier, error) {
	addr := env["NOTIFY_SOCKET"]
	if addr == "" {
		return nil, nil
	}
	if addr[0] != '/' && addr[0] != '@' { // @ is for an abstract one, as in package net
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: not an address that pmcd knows", addr)
	}
	// The connection lasts: when descriptors have run out pmcd is alive, and
	// has to be able to say so.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: addr})
	if err != nil {
		return nil, fmt.Errorf("the service manager cannot be told anything: NOTIFY_SOCKET=%s: %w", addr, message.Errno(err))
	}
	n := &notifier{conn: conn}
	if usec, err := strconv.ParseUint(env["WATCHDOG_USEC"], 10, 63); err == nil {
		n.watchdog = time.Duration(min(usec, uint64(1<<63-1)/1000)) * time.Microsecond
	}
	return n, nil
}

// notifyTimeout is how long a manager may keep pmcd waiting.
const notifyTimeout = 5 * time.Second

// send sends one message of lines NAME=value. What fails stays unsaid, as in
// all users of sd_notify(3): the manager has a timeout of its own.
func (n *notifier) send(lines ...string) {
	if n == nil {
		return
	}
	n.conn.SetWriteDeadline(time.Now().Add(notifyTimeout))
	n.conn.Write([]byte(strings.Join(lines, "\n")))
}

// state sends lines and, if that has changed, the status.
func (n *notifier) state(status string, lines ...string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stateLocked(status, lines...)
}

// stateLocked is state for a caller that holds mu.
func (n *notifier) stateLocked(status string, lines ...string) {
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

// serving says who the daemon is; see announce.
func (n *notifier) serving() {
	n.state("starting agents", fmt.Sprintf("MAINPID=%d", os.Getpid()))
}

// ready says that the agents have settled, at first or after a reload.
func (n *notifier) ready(h daemon.Health) {
	n.state(statusText(h), "READY=1", fmt.Sprintf("MAINPID=%d", os.Getpid()))
}

// changed says how pmcd does now.
func (n *notifier) changed(h daemon.Health) { n.state(statusText(h)) }

// maxStatus is how long a status is at most, in bytes: it is one line.
const maxStatus = 1 << 10

// statusText is h in one line: first how many agents are ready, then which are
// not, then the problems.
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

// reloading says that what is to be said next is about a request to reload
// made before now.
func (n *notifier) reloading() {
	n.state("reloading", "RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", monotonic()/time.Microsecond))
}

// stopping says that pmcd ends. It is the last thing that is said.
func (n *notifier) stopping() { n.ends("stopping agents") }

// ends says that pmcd ends, and why if that is not usual.
func (n *notifier) ends(why string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stateLocked(why, "STOPPING=1")
	n.ending = true
}

// watch feeds the watchdog each time that beat returns, until ctx ends.
func (n *notifier) watch(ctx context.Context, beat func(context.Context) error) {
	if n == nil || n.watchdog == 0 {
		return
	}
	// One that failed must not use up the time until the manager misses it: an
	// agent that a reload replaces is gone for a moment.
	usual, soon := max(n.watchdog/2, time.Millisecond), max(n.watchdog/8, time.Millisecond)
	next := time.NewTimer(usual)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
		if beat(ctx) == nil {
			n.send("WATCHDOG=1")
			next.Reset(usual)
		} else {
			next.Reset(soon)
		}
	}
}

// monotonic reads the clock that the manager compares with its own; package time
// keeps it to itself.
func monotonic() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
