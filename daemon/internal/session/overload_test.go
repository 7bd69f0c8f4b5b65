package session

import (
	"net/netip"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/conn"
)

func TestGroupName(t *testing.T) {
	for _, tt := range []struct {
		peer conn.Peer
		want string
	}{
		{conn.Peer{Unix: true, UID: 998}, "uid 998"},
		{conn.Peer{Addr: netip.MustParseAddr("127.0.0.9")}, "localhost"},
		{conn.Peer{Addr: netip.MustParseAddr("192.0.2.7")}, "192.0.2.7"},
		{conn.Peer{Addr: netip.MustParseAddr("2001:db8::1:2:3:4")}, "2001:db8::/64"},
		{conn.Peer{Addr: netip.MustParseAddr("fe80::7%eth0")}, "fe80::7%eth0"},
	} {
		if got := groupName(groupOf(tt.peer)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.peer, got, tt.want)
		}
	}
}
