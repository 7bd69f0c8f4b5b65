package peer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu/pdutest"
)

// Ports are taken from below the range from which the kernel takes the ports
// of outgoing connections, so that no client of a parallel test holds one.
func portRange() (low, high int) {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	fmt.Sscan(string(text), &high)
	return 10000, max(high, 12000)
}

// FreePort finds a port that no process listens on. Another process may take it a
// moment later: see [Start].
func FreePort() (int, error) {
	var last error
	low, high := portRange()
	for range 100 {
		port := low + rand.IntN(high-low)
		if last = listenable(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port: %w", last)
}

func listenable(port int) error {
	nets := []string{"tcp4"}
	if IPv6() == nil {
		nets = append(nets, "tcp6")
	}
	for _, n := range nets {
		l, err := net.Listen(n, ":"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		l.Close()
	}
	return nil
}

// IPv6 says why there is no IPv6 loopback here, or is nil. "make peers" turns
// it on where the kernel has it.
var IPv6 = sync.OnceValue(func() error {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return err
	}
	return l.Close()
})

// errNotOurs is what [greeting] returns when another program holds the port.
var errNotOurs = errors.New("the port belongs to another process")

// greeting connects and waits a second for a greeting of pmcd that does not refuse the client.
func greeting(network, addr string) error {
	conn, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	_, err = pdutest.New(conn).Greeting()
	return err
}

// listens reports whether process pid, or one of its descendants, listens on
// the TCP port: a greeting proves only that some process does.
func listens(pid, port int) (bool, error) {
	inodes := map[string]bool{}
	for _, p := range append(Descendants(pid), Proc{PID: pid}) {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
		if os.IsPermission(err) {
			return true, nil // only root sees descriptors of a process that cannot be traced
		}
		if err != nil {
			continue // it has just ended
		}
		for _, fd := range fds {
			l, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(p.PID), "fd", fd.Name()))
			if s, ok := strings.CutPrefix(l, "socket:["); ok {
				inodes[strings.TrimSuffix(s, "]")] = true
			}
		}
	}
	suffix := []byte(fmt.Sprintf(":%04X", port))
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		for line := range bytes.Lines(text) {
			// sl local rem st tx:rx tr:when retrnsmt uid timeout inode
			w := bytes.Fields(line)
			if len(w) > 9 && bytes.HasSuffix(w[1], suffix) && string(w[3]) == "0A" && inodes[string(w[9])] {
				return true, nil
			}
		}
	}
	return false, nil
}
