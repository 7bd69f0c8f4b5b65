package trace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A peers decides which hosts may connect.
type peers struct {
	rules *access.Counter // nil without rules: then only this host may
}

// maxResolve is how long the look-ups of all hosts in the rules may take. pmcd waits three
// seconds for the agent.
const maxResolve = 2 * time.Second

// newPeers returns the peers that the rules allow. It is an error if a host of a rule has
// no address: without the rule, others could connect than the rules say.
func newPeers(rules []accessRule, r pmcdconf.Resolver) (*peers, error) {
	if len(rules) == 0 {
		return new(peers), nil
	}
	var text strings.Builder
	text.WriteString("[access]\n")
	for _, r := range rules {
		word, limit := "disallow", ""
		if r.allow {
			word = "allow"
			if r.max > 0 {
				limit = fmt.Sprintf(", maximum %d connections", r.max)
			}
		}
		fmt.Fprintf(&text, "%s hosts %q : all%s;\n", word, r.host, limit)
	}
	conf, err := pmcdconf.Parse("-A", strings.NewReader(text.String()), pmcdconf.Options{Resolver: r, OwnNameLater: true})
	if err == nil && len(conf.LeftOut) > 0 {
		err = conf.LeftOut
	}
	var list pmcdconf.ErrorList
	if errors.As(err, &list) && len(list) > 0 {
		err = list[0].Err // its position is in no file
		if cause := errors.Unwrap(errors.Unwrap(err)); list[0].Warning && cause != nil {
			err = fmt.Errorf("no address for a host of -A: %w", cause)
		}
	}
	if err != nil {
		return nil, err
	}
	p := &peers{access.NewCounter(conf.Access)}
	if conf.Complete != nil {
		go func() { // ends when the name server has answered, or has not for maxResolve
			if list, err := conf.Complete(); list != nil && err == nil {
				p.rules.Recount(list)
			}
		}()
	}
	return p, nil
}

// admit decides about the client of c, which is number num. If the error is nil, release must
// be called at the end of the connection.
func (p *peers) admit(c net.Conn, num int) (release func(), err error) {
	return p.admitAddr(addrOf(c.RemoteAddr()), addrOf(c.LocalAddr()), num)
}

func (p *peers) admitAddr(peer, local netip.Addr, num int) (release func(), err error) {
	if p.rules == nil {
		if !ownHost(peer, local) {
			return nil, access.ErrDenied
		}
		return func() {}, nil
	}
	family := access.IPv6
	if peer.Is4() {
		family = access.Inet
	}
	k := new(access.Conn)
	if err := p.rules.Admit(k, num, access.Peer{Family: family, Addr: peer}); err != nil {
		return nil, err
	}
	if k.Denied() == access.All {
		k.Release()
		return nil, access.ErrDenied
	}
	return k.Release, nil
}

// ownHost reports whether a peer is on this host: its address is a loopback address, or
// the address of this host that it has connected to.
func ownHost(peer, local netip.Addr) bool {
	return peer.IsValid() && (peer == local || peer == netip.IPv6Loopback() || peer.Is4() && peer.IsLoopback())
}

// addrOf returns the address of one end of a TCP connection, and addrPortOf also the port.
func addrOf(a net.Addr) netip.Addr { return addrPortOf(a).Addr() }

func addrPortOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := t.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// A resolver looks up the hosts of rules. There are no rules for users or groups.
type resolver struct{}

func (resolver) Hosts(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxResolve)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

var errNoAccounts = errors.New("there are no rules for users and groups")

func (resolver) Static(name string) []netip.Addr       { return pmcdconf.StaticHosts(name) }
func (resolver) Port(string) (int, error)              { return 0, errNoAccounts }
func (resolver) User(string) (uint32, []uint32, error) { return 0, nil, errNoAccounts }
func (resolver) GroupName(uint32) string               { return "" }
func (resolver) Group(string) (uint32, error)          { return 0, errNoAccounts }
func (resolver) Groups(uint32) ([]uint32, error)       { return nil, errNoAccounts }
