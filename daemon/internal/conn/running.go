package conn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// ErrRunning is the error of [Listen] if a pmcd is running.
var ErrRunning = errors.New("another pmcd is already running")

const (
	// greetTime is how long a pmcd may take to greet.
	greetTime = time.Second
	// A socket that is taken is tried for retries times, retryTime apart: the pmcd
	// before this one may be about to end.
	retries   = 4
	retryTime = 250 * time.Millisecond
)

// checkRunning reports ErrRunning if a pmcd greets at one of the sockets.
func checkRunning(addrs []string, ports []int, unix string) error {
	type endpoint struct{ network, addr string }
	var endpoints []endpoint
	if unix != "" {
		endpoints = append(endpoints, endpoint{"unix", unix})
	}
	for _, port := range ports {
		if port == 0 {
			continue
		}
		for _, addr := range addrs {
			hosts := []string{addr}
			if addr == "" || addr == "loopback" {
				hosts = []string{"127.0.0.1", "::1"}
			} else if !isOwn(addr) {
				continue // another host answers there
			}
			for _, h := range hosts {
				endpoints = append(endpoints, endpoint{"tcp", net.JoinHostPort(h, fmt.Sprint(port))})
			}
		}
	}
	for _, e := range endpoints {
		for try := 1; greets(e.network, e.addr); try++ {
			if try == retries {
				return fmt.Errorf("%w at %s; this one does not start: stop that one, or give this one -p and -s of its own", ErrRunning, e.addr)
			}
			<-time.After(retryTime)
		}
	}
	return nil
}

// isOwn reports whether this host has a numeric address at the moment, or whether that cannot be found
// out.
func isOwn(addr string) bool {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(addr, "0"))
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return true
	} else if err != nil {
		return false
	}
	conn.Close()
	// Where net.ipv4.ip_nonlocal_bind is on, that says nothing: hosts that share an
	// address have it so.
	ip, _ := netip.ParseAddr(addr)
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr() == ip.WithZone("").Unmap()
	})
}

// greets reports whether a pmcd listens at an address. It sends a PDU to each
// client that connects.
func greets(network, addr string) bool {
	conn, err := net.DialTimeout(network, addr, greetTime)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(greetTime))
	b := make([]byte, pdu.HeaderLen)
	if _, err := io.ReadFull(conn, b); err != nil {
		return false
	}
	size, typ, _ := pdu.Header(b)
	return typ == pdu.TypeError && (size == 20 || size == 16) // an error code, with or without features
}
