package cli

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// A valueError is about the value of an option.
type valueError string

func (e valueError) Error() string { return string(e) }

func badValue(format string, a ...any) error { return valueError(fmt.Sprintf(format, a...)) }

// setLateGrace is --late-grace. For the daemon, a negative time means none.
func (opt *Options) setLateGrace(seconds int) {
	opt.LateGrace = time.Duration(seconds) * time.Second
	if seconds == 0 {
		opt.LateGrace = -1
	}
}

// minMaxReply is the smallest value of --max-reply. It is the default limit of a request.
const minMaxReply = 64 << 10

// setMaxReply is --max-reply. It reports false if v is not valid.
func (opt *Options) setMaxReply(v string) bool {
	n, rest := strtol(v, 10)
	if rest != "" || n < minMaxReply {
		return false
	}
	opt.MaxReply = n
	return true
}

// parsePorts returns the numbers of a list, as in -p. A number that is not a port is a
// mistake, and stays in the list, because other ports can be opened. source is -p, or the
// name of a variable.
func (opt *Options) parsePorts(source, v string) (ports []int, ok bool) {
	for word := range strings.SplitSeq(v, ",") {
		n, rest := strtol(word, 0)
		if rest != "" || n < 0 {
			return nil, false
		}
		if n > 65535 {
			opt.Mistake("port {port} of {option} is ignored: ports are 1 to 65535; without another one only the Unix domain socket is served", "port", n, "option", source)
		}
		if word != "" {
			ports = append(ports, n)
		}
	}
	return ports, true
}

// parseRelay returns an element of --relay, an address or a network. The scope of a
// link-local address is not part of it.
func parseRelay(v string) (relay netip.Prefix, ok bool) {
	if strings.Contains(v, "/") {
		relay, err := netip.ParsePrefix(v)
		return relay, err == nil && !relay.Addr().Is4In6()
	}
	addr, err := netip.ParseAddr(v)
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), err == nil && addr.Zone() == ""
}

// addInterface adds an address for daemon.Listen. A value that is not an address is a
// mistake, and stays in the list, because pmcd can listen at other addresses.
func (opt *Options) addInterface(v string) {
	switch v {
	case "INADDR_ANY":
		v = ""
	case "INADDR_LOOPBACK":
		v = "loopback"
	default:
		if _, err := netip.ParseAddr(v); err != nil {
			opt.Mistake("-i {value} is ignored: an address is numeric, INADDR_ANY or INADDR_LOOPBACK; without another one only the Unix domain socket is served", "value", v)
		}
	}
	opt.Interfaces = append(opt.Interfaces, v)
}
