package pmcdconf

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/access"
)

// A Resolver looks up names while a configuration is read and, as an
// access.Resolver, later. Its methods may be called concurrently.
type Resolver interface {
	// Hosts returns the addresses of a host.
	Hosts(name string) ([]netip.Addr, error)
	// Static returns those of a host that are known without a name server. It does not wait.
	Static(name string) []netip.Addr
	// Port returns the port of a service.
	Port(name string) (int, error)
	// User returns the uid of a user and the ids of the user's groups.
	User(name string) (uid uint32, groups []uint32, err error)
	// GroupName returns the name of a group, or "".
	GroupName(gid uint32) string
	// Group returns the gid of a group.
	Group(name string) (gid uint32, err error)

	access.Resolver
}

// maxResolve is the timeout for looking up a host. All hosts of a file are looked up
// concurrently, so a start or a reload takes not much longer if no name server
// replies. Then the hosts have no addresses.
const maxResolve = 5 * time.Second

// A system is the Resolver of the operating system.
type system struct {
	limit time.Duration // for a host; maxResolve except in tests
}

func (s system) Hosts(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func (system) Static(name string) []netip.Addr { return StaticHosts(name) }

// StaticHosts returns the addresses of a host in /etc/hosts.
func StaticHosts(name string) []netip.Addr {
	// The resolver of C would ask all sources in nsswitch.conf(5).
	noServer := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.ErrUnsupported }}
	addrs, _ := noServer.LookupNetIP(context.Background(), "ip", name)
	return addrs
}

func (system) Port(name string) (int, error) {
	if strings.HasPrefix(name, "+") || strings.HasPrefix(name, "-") || name == "" {
		return 0, fmt.Errorf("unknown service %q", name) // and no number
	}
	// "ip": the protocol does not matter to pmcd.
	return net.DefaultResolver.LookupPort(context.Background(), "ip", name)
}

func (system) User(name string) (uint32, []uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, nil, err
	}
	groups, err := groupIDs(u)
	if err != nil {
		return 0, nil, err
	}
	uid, err := id(u.Uid)
	return uid, groups, err
}

func (system) GroupName(gid uint32) string {
	g, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10))
	if err != nil {
		return ""
	}
	return g.Name
}

func (system) Group(name string) (uint32, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return id(g.Gid)
}

// Groups implements access.Resolver. An account that does not exist has no groups.
func (system) Groups(uid uint32) ([]uint32, error) {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if _, unknown := err.(user.UnknownUserIdError); unknown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return groupIDs(u)
}

func groupIDs(u *user.User) ([]uint32, error) {
	names, err := u.GroupIds()
	if err != nil {
		return nil, err
	}
	var ids []uint32
	for _, name := range names {
		n, err := id(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, n)
	}
	return ids, nil
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
