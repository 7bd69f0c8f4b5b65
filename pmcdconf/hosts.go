package pmcdconf

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/access"
)

// An unresolved is the error for a host name without addresses.
type unresolved struct {
	err   error
	never bool // a reload cannot change this
}

func (e *unresolved) Error() string {
	text := e.err.Error() + "; this rule is left out"
	if !e.never {
		text += " until a reload finds the host"
	}
	return text
}
func (e *unresolved) Unwrap() error { return e.err }

// notPrefix is the error for a network that is not written as PCP does. Such a name is not
// looked up: no host has a slash in it.
func notPrefix(name string) error {
	network := "a network is the beginning of its addresses, such as 192.168.1.* or fe80:*"
	if p, err := netip.ParsePrefix(name); err == nil && p.Addr().Is4() && p.Bits()%8 == 0 && p.Bits() > 0 && p.Bits() < 32 {
		parts := strings.SplitN(p.Addr().String(), ".", p.Bits()/8+1)
		network = "write " + strings.Join(parts[:p.Bits()/8], ".") + ".*"
	}
	return &unresolved{errors.New("PCP has no prefix lengths and no masks: " + network), true}
}

// A lookup is the result of looking up a host. It may be read after p.asking.Wait.
type lookup struct {
	addrs []netip.Addr
	err   error
}

// env returns the environment of the access list.
func (p *parser) env() access.Env {
	e := access.Env{Accounts: p.res, CredsRequired: p.opt.CredsRequired}
	for _, r := range p.rules {
		if r.Kind == access.Host { // rules for accounts do not need Self
			e.Self, _ = p.ownAddrs()
			break
		}
	}
	return e
}

// ownAddrs returns the addresses of this host's own name or, if it has none,
// those of localhost.
func (p *parser) ownAddrs() ([]netip.Addr, error) {
	if p.self == nil {
		var l lookup
		var name string
		name, l.err = p.hostname()
		switch {
		case name != "" && p.opt.OwnNameLater && p.lookups[name] == nil: // no rule names it
			if l.addrs = unmap(p.res.Static(name)); len(l.addrs) == 0 {
				p.later, l.addrs = name, p.loopback()
			}
			p.self = &l
			return l.addrs, nil
		case name != "":
			l.addrs, l.err = p.lookup(name)
		}
		if l.err != nil {
			l.addrs, l.err = p.lookup("localhost")
		}
		p.self = &l
	}
	return p.self.addrs, p.self.err
}

// loopback returns the addresses of localhost without asking a name server.
func (p *parser) loopback() []netip.Addr {
	if addrs := unmap(p.res.Static("localhost")); len(addrs) > 0 {
		return addrs
	}
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
}

// complete is Config.Complete.
func (p *parser) complete() (*access.List, error) {
	own := p.resolve(p.later)
	if own.err != nil {
		return nil, nil
	}
	var rules []access.Rule
	for i, r := range p.rules {
		if !isOwn(r) {
			rules = append(rules, r)
		} else if i == 0 || !isOwn(p.rules[i-1]) || p.at[i-1].Error != p.at[i].Error { // the first of this name
			for _, a := range own.addrs {
				r.Host = access.One(a)
				rules = append(rules, r)
			}
		}
	}
	env := p.env()
	env.Self = own.addrs
	return access.New(rules, env)
}

// isOwn reports whether r is for an address of this host's own name.
func isOwn(r access.Rule) bool {
	return r.Kind == access.Host && strings.EqualFold(r.Name, "localhost")
}

func (p *parser) hostname() (string, error) {
	if p.opt.Hostname != "" {
		return p.opt.Hostname, nil
	}
	return os.Hostname()
}

// ask starts the look-ups that a rule for a host needs. Reading goes on meanwhile.
func (p *parser) ask(name string) {
	names := []string{name}
	if _, ok := literal(name); ok || strings.ContainsAny(name, "*:") || strings.EqualFold(name, "localhost") {
		names = names[:0] // "local:" and so on
	}
	if self, _ := p.hostname(); self != "" && !p.opt.OwnNameLater { // loopback clients are evaluated with its addresses
		names = append(names, self)
	}
	for _, name := range names {
		if p.lookups[name] == nil {
			l := new(lookup)
			p.lookups[name] = l
			p.asking.Go(func() { *l = p.resolve(name) })
		}
	}
}

// lookup returns the addresses of a host, and looks it up once for a
// configuration.
func (p *parser) lookup(name string) ([]netip.Addr, error) {
	l := p.lookups[name]
	if l == nil {
		l = new(lookup)
		*l = p.resolve(name)
		p.lookups[name] = l
	}
	return l.addrs, l.err
}

func (p *parser) resolve(name string) (l lookup) {
	if strings.Contains(name, "/") {
		l.err = notPrefix(name)
		return l
	}
	addrs, err := p.res.Hosts(name)
	l.addrs = unmap(addrs)
	switch {
	case err != nil:
		l.err = &unresolved{err: err}
	case len(addrs) == 0:
		l.err = &unresolved{err: fmt.Errorf("no address for host %s", name)}
	}
	return l
}

// unmap returns addrs as rules have them: a resolver may return IPv4 addresses in IPv6 form.
func unmap(addrs []netip.Addr) (list []netip.Addr) {
	for _, a := range addrs {
		list = append(list, a.Unmap().WithZone(""))
	}
	return list
}

// hostRules returns the rules for a host identifier, with only Name and Host set. A
// note, if not "", is a warning.
func (p *parser) hostRules(name string) (rules []access.Rule, note string, err error) {
	unix := access.Rule{Name: "unix:", Host: access.HostSpec{Family: access.Unix, Level: 1}}
	if name == "*" {
		for _, w := range []string{".*", ":*"} {
			spec, err := wildcard(w)
			if err != nil {
				return nil, "", err
			}
			rules = append(rules, access.Rule{Name: w, Host: spec})
		}
		return append(rules, unix), "", nil
	}
	if i := strings.IndexByte(name, '*'); i >= 0 && i != len(name)-1 {
		return nil, "", fmt.Errorf("wildcard in host pattern %q is not at the end", name)
	}
	scheme, path, _ := strings.Cut(name, ":")
	switch {
	case scheme != name && (scheme == "unix" || scheme == "local"):
		rules = append(rules, unix)
		if strings.TrimLeft(strings.TrimSuffix(path, "*"), "/") != "" {
			note = fmt.Sprintf(`Ignoring the path in host pattern "%s"`, path)
		}
		if scheme == "unix" {
			return rules, note, nil
		}
		name = "localhost"
	case strings.HasSuffix(name, "*"):
		spec, err := wildcard(name)
		if err != nil {
			return nil, "", err
		}
		return []access.Rule{{Name: name, Host: spec}}, "", nil
	}
	var addrs []netip.Addr
	if strings.EqualFold(name, "localhost") {
		addrs, err = p.ownAddrs()
	} else if a, ok := literal(name); ok {
		addrs = []netip.Addr{a}
	} else {
		addrs, err = p.lookup(name)
	}
	if err != nil {
		return nil, note, err
	}
	for _, a := range addrs {
		rules = append(rules, access.Rule{Name: name, Host: access.One(a)})
	}
	return rules, note, nil
}

// literal parses an address in one of the forms of inet_pton(3) and inet_aton(3).
// The latter may have fewer parts, and octal and hexadecimal numbers.
func literal(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.WithZone(""), true
	}
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var a uint32
	for i, part := range parts {
		base := 10
		if len(part) > 1 && part[0] == '0' {
			base, part = 8, part[1:]
			if part[0] == 'x' || part[0] == 'X' {
				base, part = 16, part[1:]
			}
		}
		bits := 8
		if i == len(parts)-1 { // the last is for all bytes that remain
			bits = 32 - 8*i
		}
		n, err := strconv.ParseUint(part, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		a = a<<bits | uint32(n)
	}
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), true
}
