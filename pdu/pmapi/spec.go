package pmapi

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A Spec is a host specification as the option -h of PCP's tools has it (PCPIntro(1)): where
// a pmcd is, how to reach it, and the user to log in. [ParseSpec] makes one of its text.
type Spec struct {
	// Host is the name or the address of the host, without brackets, and Ports are the TCP
	// ports that Dial tries in turn. Without ports it tries those of PMCD_PORT. Without a
	// host it uses TCP to this one.
	Host  string
	Ports []int

	// Unix is whether Dial uses a Unix socket, at the path Socket. With Local, too, it uses
	// TCP to localhost if the Unix socket cannot be opened. Then Host and Ports are empty.
	Unix, Local bool
	Socket      string // "" for the socket of PMCD_SOCKET or the usual one

	// Proxy is the host of a pmproxy(1) that relays the connection, or "". Without a
	// port, Dial uses that of PMPROXY_PORT.
	Proxy     string
	ProxyPort int

	Secure    Secure // whether to use TLS
	Container string // metrics as seen from this container

	// User and the fields below are for logging in. Dial logs in if there is a User or a
	// Method, or if pmcd demands it of clients that do not use a Unix socket.
	User, Password string
	Method         string // of SASL, such as PLAIN; "" for the best that pmcd offers
}

// Secure says whether a connection uses TLS.
type Secure int

// Values of Spec.Secure.
const (
	SecureDefault Secure = iota // what PCP_SECURE_SOCKETS says; without it, no TLS
	SecureRelaxed               // TLS if pmcd offers it
	SecureEnforce               // TLS or nothing
)

// String returns a text of s for [ParseSpec] and [Dial], without the password.
func (s Spec) String() string {
	var b strings.Builder
	var attrs []string
	attr := func(name, value string) {
		if value != "" {
			// QueryEscape is stricter than needed. It makes a plus sign of a space.
			attrs = append(attrs, name+"="+strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))
		}
	}
	switch {
	case s.Local:
		b.WriteString("local:")
	case s.Unix:
		b.WriteString("unix:")
	case s.Secure == SecureEnforce:
		b.WriteString("pcps://")
	case slices.Contains(schemes, s.Host+":"):
		b.WriteString("pcp://")
	}
	if s.Unix {
		if s.Socket != "" {
			b.WriteString("/" + s.Socket)
		}
	} else {
		b.WriteString(bracketed(s.Host))
		for i, port := range s.Ports {
			b.WriteByte(":,"[min(i, 1)])
			b.WriteString(strconv.Itoa(port))
		}
		if s.Proxy != "" {
			b.WriteString("@" + bracketed(s.Proxy))
			if s.ProxyPort != 0 {
				b.WriteString(":" + strconv.Itoa(s.ProxyPort))
			}
		}
	}
	attr("container", s.Container)
	attr("user", s.User)
	attr("method", s.Method)
	switch {
	case s.Secure == SecureRelaxed:
		attr("secure", "relaxed")
	case s.Secure == SecureEnforce && s.Unix:
		attr("secure", "enforce")
	}
	if len(attrs) > 0 {
		b.WriteString("?" + strings.Join(attrs, "&"))
	}
	return b.String()
}

func bracketed(host string) string {
	if strings.ContainsAny(host, ":@/?,[]") || net.ParseIP(host) != nil && strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
