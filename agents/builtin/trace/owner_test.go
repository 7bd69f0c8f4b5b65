package trace

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/tracepdu"
)

// The kernel tells which user a socket of this host has, and whether it has one.
func TestOwner(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		t.Run(at, func(t *testing.T) {
			if strings.HasPrefix(at, "[") {
				testutil.NeedIPv6(t)
			}
			l, err := net.Listen("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			to := l.Addr().(*net.TCPAddr)
			if at == "[::]:0" { // IPv4 at a socket of IPv6
				to.IP = net.IPv4(127, 0, 0, 1)
			}
			app, err := net.DialTCP("tcp", nil, to)
			if err != nil {
				t.Fatal(err)
			}
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			peer, local := addrPortOf(c.RemoteAddr()), addrPortOf(c.LocalAddr())
			switch got, want := ownerOf(peer, local), (owner{local: true, uid: uint32(os.Geteuid())}); got {
			case want:
			case unknownUser:
				testutil.Missing(t, "the kernel does not tell the user of a socket: perhaps it has no inet_diag")
			default:
				t.Errorf("%s: %v, want %v", at, got, want)
			}
			// A socket without a process has user 0 in the reply.
			app.Close()
			testutil.Eventually(t, "the socket has no user", func() bool { return ownerOf(peer, local) == unknownUser })
		})
	}
	for peer, want := range map[string]string{
		"192.0.2.1:1":         "host 192.0.2.1",
		"[2001:db8::1:2:3]:1": "network 2001:db8::/64",
		"[fe80::1%lo]:1":      "network fe80::/64",
	} {
		if got := ownerOf(netip.MustParseAddrPort(peer), netip.MustParseAddrPort("192.0.2.2:4323")).String(); got != want {
			t.Errorf("%s: %s, want %s", peer, got, want)
		}
	}
}

// What is listening at the port of a socket that is gone is not that socket.
func TestParseSocket(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := addrPortOf(l.Addr())
	if uid, ok := socketUser(at, netip.MustParseAddrPort("127.0.0.1:1")); ok {
		t.Errorf("user %d", uid)
	}
	b := make([]byte, diagReplyLen)
	for n := range b {
		if _, ok := parseSocket(b[:n], 0, 0); ok {
			t.Errorf("%d bytes are enough", n)
		}
	}
	if _, ok := parseSocket(b, 0, 0); ok {
		t.Error("a reply of another type")
	}
	b[4], b[syscall.SizeofNlMsghdr+diagInode] = sockDiagByFamily, 1
	if _, ok := parseSocket(b, 0, 0); !ok {
		t.Error("not a reply")
	}
}

func FuzzParseSocket(f *testing.F) {
	b := make([]byte, diagReplyLen)
	b[4], b[syscall.SizeofNlMsghdr+diagInode] = sockDiagByFamily, 1
	f.Add(b, uint16(0), uint16(0))
	f.Add(b[:diagReplyLen-1], uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, b []byte, src, dst uint16) {
		if _, ok := parseSocket(b, src, dst); !ok {
			return
		}
		id := b[syscall.SizeofNlMsghdr+diagReplyID:]
		if binary.BigEndian.Uint16(id) != src || binary.BigEndian.Uint16(id[2:]) != dst {
			t.Errorf("%x is of other ports than %d and %d", b, src, dst)
		}
	})
}

// A user has at most half of the connections.
func TestShareOfConnections(t *testing.T) {
	h := newHarness(t, Options{max: 4})
	var last *client
	for range 2 {
		c, n := h.dial()
		if n != tracepdu.Version {
			t.Fatalf("got %d", n)
		}
		last = c
	}
	if _, n := h.dial(); n != tracepdu.ErrConnLimit {
		t.Errorf("got %d", n)
	}
	last.Close()
	testutil.Eventually(t, "there is room again", func() bool {
		_, n := h.dial()
		return n == tracepdu.Version
	})
}
