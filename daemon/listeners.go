package daemon

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/conn"
)

// Listeners are the sockets that clients connect to.
type Listeners = conn.Listeners

// ErrRunning is the error of [Listen] if a pmcd is running.
var ErrRunning = conn.ErrRunning

// Listen opens a socket for each pair of an address and a port, and the Unix
// socket. An address is "" for any, "loopback", or numeric. Inherited listening
// sockets (socket activation) are taken over: one for TCP replaces all addresses
// and ports, one of the Unix domain replaces the path. A socket that cannot be
// opened is in the table of String, or in Unbound if it has a numeric address; if there is
// none, that is an error. If a pmcd answers at one of the addresses, none is opened
// or changed and the error is ErrRunning.
func Listen(addrs []string, ports []int, unix string, inherited ...*os.File) (*Listeners, error) {
	return conn.Listen(addrs, ports, unix, inherited...)
}

// limitClients sets the limit for clients, by the agents that there are.
func (d *Daemon) limitClients() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		d.log.Warn("the number of clients is not limited: getrlimit: {error}", "error", err)
		return
	}
	if s, changed := d.acceptor.Reserve(len(d.routes.Load().Agents()), limit.Cur); s != nil && changed {
		d.log.Warn("RLIMIT_NOFILE is {limit}: pmcd and its agents may need {need} descriptors and have {have}, and at most {clients} clients are accepted; raise it (LimitNOFILE=, ulimit -n)",
			"limit", s.Limit, "need", s.Need, "have", s.Have, "clients", s.Conns)
	}
}
