package daemon

import (
	"fmt"
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
// and ports, one of the Unix domain replaces the path. A socket that cannot be had
// is in the table of String, or in Unbound if it has a numeric address; if there is
// none, that is an error. If a pmcd answers at one of the addresses, none is opened
// or changed and the error is ErrRunning.
func Listen(addrs []string, ports []int, unix string, inherited ...*os.File) (*Listeners, error) {
	return conn.Listen(addrs, ports, unix, inherited...)
}

// limitClients sets the limit for clients, by the agents that there are.
func (d *Daemon) limitClients() {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		d.log.Warn(fmt.Sprintf("the number of clients is not limited: getrlimit: %v", err))
		return
	}
	if s := d.acceptor.Reserve(len(d.routes.Load().Agents()), limit.Cur); s != nil {
		d.log.Warn(fmt.Sprintf("RLIMIT_NOFILE is %d: pmcd and its agents may need %d descriptors and have %d, and at most %d clients are accepted; raise it (LimitNOFILE=, ulimit -n)",
			s.Limit, s.Need, s.Have, s.Conns))
	}
}
