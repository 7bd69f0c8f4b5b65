package daemon

import (
	"context"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/internal/logtext"
)

// Listeners are the sockets that clients connect to.
type Listeners = conn.Listeners

// ErrRunning is the error of [Listen] if a pmcd is running.
var ErrRunning = conn.ErrRunning

// Listen opens a socket for each pair of an address and a port, and the Unix
// socket. An address is "" for any, "loopback", or numeric. Inherited listening
// sockets (socket activation) are taken over: one for TCP replaces all addresses
// and ports, one of the Unix domain replaces the path. A socket that cannot be
// opened is in Unbound, and in the table of String unless it has a numeric address; if
// there is none, that is an error. If a pmcd answers at one of the addresses, none is
// opened or changed and the error is ErrRunning.
func Listen(addrs []string, ports []int, unix string, inherited ...*os.File) (*Listeners, error) {
	return conn.Listen(addrs, ports, unix, inherited...)
}

// limitClients sets the limit for clients, which depends on the number of agents.
func (d *Daemon) limitClients() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		d.log.Warn("cannot read RLIMIT_NOFILE: {error}; the number of clients is not limited", "error", err)
		return
	}
	d.limiting.Lock() // the last call knows the agents
	defer d.limiting.Unlock()
	s, changed := d.acceptor.Load().Reserve(len(d.routes.Load().Agents()), limit.Cur)
	d.shortage.Store(s)
	if s != nil && changed {
		d.log.LogAttrs(context.Background(), slog.LevelWarn, shortageMessage, shortageAttrs(s)...)
	}
	d.HealthChanged()
}

// shortageMessage is the message of a log entry about a Shortage. shortageAttrs are its
// attributes.
const shortageMessage = "RLIMIT_NOFILE is {limit}: pmcd and its agents may need {need} descriptors and have {have}, and at most {clients} clients are accepted; raise it (LimitNOFILE=, ulimit -n) and restart pmcd"

func shortageAttrs(s *conn.Shortage) []slog.Attr {
	return []slog.Attr{slog.Uint64("limit", s.Limit), slog.Uint64("need", s.Need), slog.Int64("have", s.Have), slog.Int64("clients", s.Conns)}
}

// descriptorProblems returns what descriptors are too few for.
func (d *Daemon) descriptorProblems() (texts []string) {
	if s := d.shortage.Load(); s != nil {
		text, _ := logtext.Append(nil, shortageMessage, shortageAttrs(s))
		texts = append(texts, string(text))
	}
	if a := d.acceptor.Load(); a != nil {
		texts = append(texts, a.Problems()...)
	}
	return texts
}
