package session

import (
	"net/netip"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/conn"
)

func TestGroupOf(t *testing.T) {
	tcp := func(addr string) conn.Peer { return conn.Peer{Addr: netip.MustParseAddr(addr)} }
	user := func(uid uint32) conn.Peer { return conn.Peer{Unix: true, UID: uid} }
	tests := []struct {
		name string
		a, b conn.Peer
		same bool
	}{
		{"one user", user(1000), user(1000), true},
		{"two users", user(1000), user(0), false},
		{"IPv4", tcp("192.0.2.1"), tcp("192.0.2.2"), false},
		{"mapped IPv4", tcp("192.0.2.1"), tcp("::ffff:192.0.2.1"), true},
		{"one IPv6 network", tcp("2001:db8::1"), tcp("2001:db8::ffff:1"), true},
		{"two IPv6 networks", tcp("2001:db8::1"), tcp("2001:db8:0:1::1"), false},
		{"link-local addresses", tcp("fe80::1%eth0"), tcp("fe80::2%eth0"), false},
		{"link-local scopes", tcp("fe80::1%eth0"), tcp("fe80::1%eth1"), false},
		{"loopback", tcp("127.0.0.1"), tcp("127.0.0.2"), true},
		{"loopback, IPv6", tcp("127.0.0.1"), tcp("::1"), true},
		{"root and a host", user(0), tcp("192.0.2.1"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if a, b := groupOf(tt.a), groupOf(tt.b); (a == b) != tt.same {
				t.Errorf("groups %v and %v", a, b)
			}
		})
	}
}

// The members of a group are processes at the Unix socket, and connections at a port. A
// connection from a relay is a group of its own.
func TestNewKey(t *testing.T) {
	srv := &Server{cfg: Config{Relays: []netip.Prefix{
		netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/48"), netip.MustParsePrefix("fe80::1/128"),
	}}}
	tcp := func(addr string) conn.Peer { return conn.Peer{Addr: netip.MustParseAddr(addr)} }
	process := func(uid uint32, pid int32) conn.Peer { return conn.Peer{Unix: true, UID: uid, PID: pid} }
	const same, members, groups = "the same", "members of a group", "groups"
	tests := []struct {
		name string
		a, b conn.Peer
		want string
	}{
		{"one process", process(1, 10), process(1, 10), same},
		{"two processes of a user", process(1, 10), process(1, 11), members},
		{"two users", process(1, 10), process(2, 10), groups},
		{"two connections of a host", tcp("192.0.2.2"), tcp("192.0.2.2"), members},
		{"two hosts", tcp("192.0.2.2"), tcp("192.0.2.3"), groups},
		{"a relay", tcp("192.0.2.1"), tcp("192.0.2.1"), groups},
		{"a relay, mapped", tcp("::ffff:192.0.2.1"), tcp("::ffff:192.0.2.1"), groups},
		{"a relay and another host", tcp("192.0.2.1"), tcp("192.0.2.2"), groups},
		{"a relay in a network of relays", tcp("2001:db8:0:7::1"), tcp("2001:db8:0:7::1"), groups},
		{"beside a network of relays", tcp("2001:db8:1::1"), tcp("2001:db8:1::1"), members},
		{"a link-local relay", tcp("fe80::1%eth0"), tcp("fe80::1%eth0"), groups},
		{"a link-local host", tcp("fe80::2%eth0"), tcp("fe80::2%eth0"), members},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := srv.newKey(tt.a), srv.newKey(tt.b)
			got := same
			if a.Group != b.Group {
				got = groups
			} else if a != b {
				got = members
			}
			if got != tt.want {
				t.Errorf("they are %s, want %s: %v and %v", got, tt.want, a, b)
			}
		})
	}
}
