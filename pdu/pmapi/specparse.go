package pmapi

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A SpecError is the error of [ParseSpec]. It does not quote the specification, in which there
// may be a password.
type SpecError struct {
	Offset int // in bytes, of what is wrong
	Err    error
}

func (e *SpecError) Error() string {
	return fmt.Sprintf("host specification: byte %d: %v", e.Offset, e.Err)
}

func (e *SpecError) Unwrap() error { return e.Err }

// schemes are the prefixes of a specification.
var schemes = []string{"pcp:", "pcps:", "unix:", "local:"}

// ParseSpec parses a host specification, one of
//
//	host[:port[,port]...][@proxy[:port]]
//	pcp://host...       the same
//	pcps://host...      the same, with TLS
//	unix:[//path]       a Unix socket
//	local:[//path]      a Unix socket or, if it cannot be opened, TCP to localhost
//
// A host or proxy may be an address; that of IPv6 is in brackets. A path is absolute, with or
// without the slash at its start. After a question mark there may be attributes, separated by
// ampersands: container, user (or username), pass (or password), method (or authmeth), realm
// (which is not used), and secure (relaxed or enforce). Their values are decoded as those in URLs are, except that
// a plus sign stands for itself. The empty specification is local:.
//
// libpcp differs: it ignores unknown attributes and what follows a slash behind the host, and
// does not know the comma, which PCPIntro(1) has between attributes. ParseSpec takes a comma
// for a separator if the name of an attribute and an equals sign follow it.
func ParseSpec(s string) (Spec, error) {
	p := specParser{text: s}
	p.parse()
	if p.err != nil {
		return Spec{}, p.err
	}
	return p.spec, nil
}

type specParser struct {
	text string
	off  int // of what has not been parsed
	spec Spec
	err  error
}

func (p *specParser) fail(off int, format string, args ...any) {
	if p.err == nil {
		p.err = &SpecError{Offset: off, Err: fmt.Errorf(format, args...)}
	}
}

// until returns the text up to one of the bytes in stop, or to the end, and skips it.
func (p *specParser) until(stop string) string {
	rest := p.text[p.off:]
	if i := strings.IndexAny(rest, stop); i >= 0 {
		rest = rest[:i]
	}
	p.off += len(rest)
	return rest
}

// skip skips b and reports whether it was there.
func (p *specParser) skip(b string) bool {
	ok := strings.HasPrefix(p.text[p.off:], b)
	if ok {
		p.off += len(b)
	}
	return ok
}

func (p *specParser) parse() {
	if i := strings.IndexByte(p.text, 0); i >= 0 {
		p.fail(i, "a NUL")
		return
	}
	scheme := "local:"
	if p.text != "" && p.text[0] != '?' {
		scheme = ""
		for _, s := range schemes {
			if p.skip(s) {
				scheme = s
				for p.skip("/") {
				}
				break
			}
		}
	}
	switch scheme {
	case "unix:", "local:":
		p.spec.Unix, p.spec.Local = true, scheme == "local:"
		if path := p.until(":?"); path != "" {
			p.spec.Socket = "/" + path
		}
		p.skip(":") // as in local://path:?user=me
	default:
		if scheme == "pcps:" {
			p.spec.Secure = SecureEnforce
		}
		p.hosts()
	}
	p.skip("/") // as in a URL without a path
	if p.skip("?") {
		p.attributes()
	}
	if p.off < len(p.text) {
		p.fail(p.off, "%q is unexpected", p.text[p.off])
	}
}

func (p *specParser) hosts() {
	s := &p.spec
	s.Host = p.host("host")
	if p.skip(":") {
		s.Ports = append(s.Ports, p.port())
		for p.skip(",") {
			s.Ports = append(s.Ports, p.port())
		}
	}
	if p.skip("@") {
		s.Proxy = p.host("proxy")
		if p.skip(":") {
			s.ProxyPort = p.port()
		}
	}
}

func (p *specParser) host(what string) string {
	start := p.off
	var host string
	if p.skip("[") {
		host = p.until("]")
		if !p.skip("]") {
			p.fail(p.off, "no ] after the %s", what)
		}
	} else {
		host = p.until(":@/?,[]")
	}
	if host == "" {
		p.fail(start, "no %s", what)
	}
	// pmproxy gets the host in a line of its own, with a space after it.
	if i := strings.IndexFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		p.fail(start+i, "a blank in the %s", what)
	}
	return host
}

func (p *specParser) port() int {
	start := p.off
	s := p.until(":,@/?")
	n, err := strconv.ParseUint(s, 10, 16)
	switch {
	case s == "":
		p.fail(start, "no port")
	case err != nil || n == 0:
		p.fail(start, "not a port")
	}
	return int(n)
}

// attributeNames are the names of attributes, and what they are called here.
var attributeNames = map[string]string{
	"container": "container",
	"user":      "user", "username": "user",
	"pass": "pass", "password": "pass",
	"method": "method", "authmeth": "method",
	"realm":  "", // of SASL; none of the methods here uses it
	"secure": "secure",
}

func (p *specParser) attributes() {
	for p.off < len(p.text) && p.err == nil {
		start := p.off
		name := p.until("=&")
		key, ok := attributeNames[name]
		if !ok {
			p.fail(start, "unknown attribute")
		}
		var value string
		if p.skip("=") {
			start = p.off
			value = p.value()
		}
		p.skip("&")
		value, err := url.PathUnescape(value)
		if err != nil || strings.Contains(value, "\x00") {
			p.fail(start, "not encoded as in a URL")
		}
		if err := p.spec.set(key, value); err != nil {
			p.fail(start, "%s: %w", name, err)
		}
	}
}

// value returns the value of an attribute and skips it, with the comma if one separates it
// from the next attribute.
func (p *specParser) value() string {
	v := p.until("&")
	for i := range len(v) {
		if v[i] != ',' {
			continue
		}
		name, _, ok := strings.Cut(v[i+1:], "=")
		if _, known := attributeNames[name]; ok && known {
			p.off -= len(v) - i - 1
			return v[:i]
		}
	}
	return v
}

func (s *Spec) set(key, value string) error {
	switch key {
	case "container":
		s.Container = value
	case "user":
		s.User = value
	case "pass":
		s.Password = value
	case "method":
		s.Method = strings.ToUpper(value)
	case "secure":
		switch value {
		case "relaxed":
			s.Secure = SecureRelaxed
		case "", "1", "enforce":
			s.Secure = SecureEnforce
		default:
			return errors.New("not relaxed or enforce")
		}
	}
	return nil
}
