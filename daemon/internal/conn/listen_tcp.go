package conn

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// A tcpEnd is one address of those that an address of Listen stands for.
type tcpEnd struct {
	network, host string // as for package net
	family, name  string // in the table of request ports
	err           error  // why it is not listened at; nil if it is
}

// tcpEnds returns what addr stands for: an address of each family, unless it is numeric.
func tcpEnds(addr string) ([]*tcpEnd, error) {
	switch addr {
	case "":
		return []*tcpEnd{{"tcp4", "0.0.0.0", "inet", "INADDR_ANY", nil}, {"tcp6", "::", "ipv6", "INADDR_ANY", nil}}, nil
	case "loopback":
		return []*tcpEnd{{"tcp4", "127.0.0.1", "inet", "INADDR_LOOPBACK", nil}, {"tcp6", "::1", "ipv6", "INADDR_LOOPBACK", nil}}, nil
	}
	ip, err := netip.ParseAddr(addr)
	switch {
	case err != nil:
		return nil, err
	case ip.Is4():
		return []*tcpEnd{{"tcp4", addr, "inet", addr, nil}}, nil
	}
	return []*tcpEnd{{"tcp6", addr, "ipv6", addr, nil}}, nil
}

// listenTCP listens at a port of addr. It returns why it does not listen at each address
// that addr stands for.
func (l *Listeners) listenTCP(addr string, port int) (errs []error) {
	ends, err := tcpEnds(addr)
	if err != nil {
		return []error{err}
	}
	numeric := len(ends) == 1
	for _, e := range ends {
		ln, err := bind(e.network, net.JoinHostPort(e.host, fmt.Sprint(port)), numeric)
		if e.err = err; err != nil {
			errs = append(errs, err)
		}
		if err == nil || !numeric {
			l.add(ln, err, e.family, e.name, fmt.Sprint(port))
		}
	}
	if numeric && ends[0].err == nil && !slices.Contains(l.numeric, addr) {
		l.numeric = append(l.numeric, addr)
	}
	if port <= math.MaxUint16 { // the caller knows that there is no such port
		l.unbound = append(l.unbound, unboundTCP(ends, port)...)
	}
	return errs
}

// unboundTCP returns a line for each of ends that is not listened at, and one line if
// that is all of them for the same reason. A host that lacks a family of addresses
// is well: there is no line for that if the other family is listened at, or fails
// for another reason.
func unboundTCP(ends []*tcpEnd, port int) (lines []string) {
	failed := slices.DeleteFunc(slices.Clone(ends), func(e *tcpEnd) bool { return e.err == nil })
	if have := slices.DeleteFunc(slices.Clone(ends), (*tcpEnd).lacksFamily); len(ends) > 1 && len(have) > 0 {
		failed = slices.DeleteFunc(failed, (*tcpEnd).lacksFamily)
	}
	if len(failed) > 1 && reason(failed[0].err).Error() == reason(failed[1].err).Error() {
		return []string{fmt.Sprintf("no client is accepted at port %d: %v; %s", port, reason(failed[0].err), restartHint(failed[0].err))}
	}
	for _, e := range failed {
		option := ""
		if len(ends) == 1 {
			option = " (-i)"
		}
		lines = append(lines, fmt.Sprintf("no client is accepted at address %s, port %d%s: %v; %s", e.host, port, option, reason(e.err), restartHint(e.err)))
	}
	return lines
}

// lacksFamily reports whether e is not listened at because this host has no addresses
// of its family.
func (e *tcpEnd) lacksFamily() bool {
	return errors.Is(e.err, syscall.EAFNOSUPPORT) || errors.Is(e.err, syscall.EPROTONOSUPPORT) || errors.Is(e.err, syscall.EADDRNOTAVAIL)
}

// restartHint says what an admin can do about err.
func restartHint(err error) string {
	if errors.Is(err, syscall.EADDRINUSE) {
		return "free it (ss -lntxp shows the program that has it) and restart pmcd"
	}
	return "restart pmcd when that is fixed"
}

// reason is err without what package net says of the address.
func reason(err error) error {
	if op := new(net.OpError); errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Unbound returns a line for each socket that was to be opened and is not. It says why.
// There is none for a port and an address that do not exist: the caller of Listen has
// checked these.
func (l *Listeners) Unbound() []string { return slices.Clone(l.unbound) }

// Absent returns the numeric addresses that are listened at and that no interface has at the moment.
func (l *Listeners) Absent() []string {
	return slices.DeleteFunc(slices.Clone(l.numeric), isOwn)
}

// AbsentText returns a line about an address that Absent has returned.
func AbsentText(addr string) string {
	return fmt.Sprintf("no client is accepted at address %s (-i): no interface has it; clients are accepted when one has it; if it is a wrong address, correct -i and restart pmcd", addr)
}
