package pmapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// Ports without others in a specification or in the environment.
const (
	pmcdPort  = 44321
	proxyPort = 44322
)

// An endpoint is one way to a pmcd.
type endpoint struct {
	network, address string // of pmcd or of the proxy

	// relay is what a pmproxy gets, or "".
	relay string

	// host is the name that a certificate must have.
	host string
}

func (e endpoint) unix() bool { return e.network == "unix" }

// endpoints returns the ways to the pmcd of s in the order in which they are tried. getenv is
// os.LookupEnv.
func (s Spec) endpoints(getenv func(string) (string, bool)) ([]endpoint, error) {
	ports, err := portsOf(getenv, "PMCD_PORT", pmcdPort)
	if err != nil {
		return nil, err
	}
	var ends []endpoint
	host := s.Host
	if s.Unix {
		ends = append(ends, endpoint{network: "unix", address: s.socket(getenv), host: "localhost"})
		if !s.Local {
			return ends, nil
		}
		host = "localhost"
	}
	if len(s.Ports) > 0 {
		ports = s.Ports
	}
	proxy, relays := s.Proxy, []int{s.ProxyPort}
	if proxy == "" && !s.Unix {
		proxy, _ = getenv("PMPROXY_HOST")
		relays[0] = 0
	}
	if proxy != "" && relays[0] == 0 {
		if relays, err = portsOf(getenv, "PMPROXY_PORT", proxyPort); err != nil {
			return nil, err
		}
	}
	for _, port := range ports {
		if proxy == "" {
			ends = append(ends, endpoint{network: "tcp", address: hostPort(host, port), host: host})
			continue
		}
		for _, p := range relays {
			ends = append(ends, endpoint{
				network: "tcp", address: hostPort(proxy, p), relay: fmt.Sprintf("%s %d\n", host, port), host: host,
			})
		}
	}
	return ends, nil
}

// socket returns the path of the Unix socket of s.
func (s Spec) socket(getenv func(string) (string, bool)) string {
	if s.Socket != "" {
		return s.Socket
	}
	if p, ok := getenv("PMCD_SOCKET"); ok && p != "" {
		return p
	}
	dir, _ := getenv("PCP_RUN_DIR")
	switch {
	case dir != "":
	case runtime.GOOS == "linux":
		dir = "/run/pcp"
	default:
		dir = "/var/run/pcp"
	}
	return path.Join(dir, "pmcd.socket")
}

// portsOf returns the ports in an environment variable, or port without it.
func portsOf(getenv func(string) (string, bool), name string, port int) ([]int, error) {
	text, ok := getenv(name)
	if !ok || text == "" {
		return []int{port}, nil
	}
	var ports []int
	for s := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("environment variable %s: %q is no port", name, s)
		}
		ports = append(ports, int(n))
	}
	return ports, nil
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// secure returns whether the connection of s uses TLS.
func (s Spec) secure(getenv func(string) (string, bool)) Secure {
	if s.Secure != SecureDefault {
		return s.Secure
	}
	v, ok := getenv("PCP_SECURE_SOCKETS")
	switch {
	case ok && (v == "" || v == "1" || v == "enforce"):
		return SecureEnforce
	case v == "relaxed":
		return SecureRelaxed
	}
	return SecureDefault
}

// dial connects to the pmcd of s. It tries all endpoints until one is a pmcd, and returns the
// errors of all if none is. The answer of a pmcd that refuses the connection is final.
func dial(ctx context.Context, s Spec, o *Options) (*conn, error) {
	ends, err := s.endpoints(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range ends {
		n, err := e.dial(ctx, s, o)
		if err == nil {
			return n, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil || isAnswer(err) {
			break
		}
	}
	return nil, errors.Join(errs...)
}

func (e endpoint) dial(ctx context.Context, s Spec, o *Options) (n *conn, err error) {
	dial := o.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	nc, err := dial(ctx, e.network, e.address)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", e.address, context.Cause(ctx))
	case err != nil:
		return nil, err
	}
	n = newConn(nc, o.maxReply())
	n.private = e.unix()
	n.begin(ctx, 0)
	if e.relay != "" {
		err = n.negotiateProxy(e.relay)
	}
	if err == nil {
		err = n.handshake(ctx, e, s, o)
	}
	n.end()
	if err == nil {
		return n, nil
	}
	n.close()
	if err = cause(ctx, err); n.noCert != nil && ctx.Err() == nil && !isAnswer(err) {
		err = fmt.Errorf("%w; the client has shown no certificate: %w", err, n.noCert)
	}
	if e.relay != "" {
		return nil, fmt.Errorf("%s by pmproxy at %s: %w", strings.TrimSpace(e.relay), e.address, err)
	}
	return nil, fmt.Errorf("%s: %w", e.address, err)
}

// What a pmproxy and its clients send before a connection is relayed (pmproxy(1)).
const (
	proxyClient = "pmproxy-client 1\n"
	proxyServer = "pmproxy-server 1\n"
)

func (n *conn) negotiateProxy(relay string) error {
	if _, err := n.nc.Write([]byte(proxyClient)); err != nil {
		return err
	}
	var b [len(proxyServer)]byte
	for got := 0; got < len(b); {
		m, err := n.nc.Read(b[got:])
		if err != nil {
			return err
		}
		got += m
	}
	if string(b[:]) != proxyServer {
		return fmt.Errorf("not a pmproxy: it sent %q", b[:])
	}
	_, err := n.nc.Write([]byte(relay))
	return err
}
