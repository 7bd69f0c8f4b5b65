package daemon

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// An address that is not there yet is listened at, and clients are served when it
// is there. Until then it is a problem. A client at a link-local address is served as others are.
func TestAbsentAddress(t *testing.T) {
	if !testutil.InOwnNetwork(t) {
		return
	}
	addrs := []string{"192.0.2.1", "2001:db8::1", "fe80::1%lo"}
	var r *harness
	for i, a := range addrs {
		if hasAddress(a) {
			t.Errorf("%s is there", a)
		}
		l, err := Listen([]string{a}, []int{0}, "")
		if err != nil {
			t.Fatal(err)
		}
		// The rules are those of PCP, with one for the address.
		host, _, _ := strings.Cut(a, "%")
		var status atomic.Pointer[[]string]
		shows := func(want ...string) {
			testutil.Eventually(t, fmt.Sprintf("the status has the problems %q", want), func() bool {
				got := status.Load()
				return got != nil && slices.Equal(*got, want) && slices.Equal(r.Problems(), want)
			})
		}
		r = newHarness(t, func(c *Config) {
			c.Listeners.Close()
			c.Listeners = l
			c.hooks.addressEvery = 10 * time.Millisecond
			c.Manager.Changed = func(h Health) { status.Store(&h.Problems) }
			withAccess(fmt.Sprintf("disallow \".*\" : store;\ndisallow \":*\" : store;\nallow \"%s\" : all;\nallow \"local:*\" : all;\n", host))(c)
		}, nil)
		if len(l.Addrs()) != 1 || len(l.Unbound()) != 0 {
			t.Errorf("%v, unbound %q", l.Addrs(), l.Unbound())
		}
		problem := "no client is accepted at address " + a + " (-i): no interface has it; clients are accepted when one has it; if it is a wrong address, correct -i and restart pmcd"
		shows(problem)
		r.awaitLogged(t, problem)
		length := map[bool]string{true: "/32", false: "/128"}[i == 0]
		testutil.Run(t, "ip", "addr", "add", host+length, "dev", "lo")
		testutil.Eventually(t, a+" is there", func() bool { return hasAddress(a) })
		shows()
		r.awaitLogged(t, "an interface has address "+a+" (-i) now: clients are accepted there")
		_, port, _ := net.SplitHostPort(l.Addrs()[0].String())
		c := r.dialHost(net.JoinHostPort(a, port))
		if got := c.values(id(240, 1)); got != "240.0.1=240" {
			t.Errorf("%s: fetch: %s", a, got)
		}
		s, _ := r.sessions.Clients.Info(0)
		if s.Address != a || s.Denied != "" {
			t.Errorf("client at %s, %v denied; want %s and nothing", s.Address, s.Denied, a)
		}
		testutil.Run(t, "ip", "addr", "del", host+length, "dev", "lo")
		shows(problem)
	}
}

// hasAddress reports whether this host has an address and gets what is sent to it. For a
// moment a new address of IPv6 is tentative, and connections to it come from another
// address. With nodad it is not tentative, but the kernel adds the route to it on another
// thread, which may have to wait. Until then all packets to the address are lost.
func hasAddress(addr string) bool {
	c, err := net.ListenPacket("udp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return false
	}
	defer c.Close()
	to, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		return false
	}
	defer to.Close()
	if !to.LocalAddr().(*net.UDPAddr).IP.Equal(c.LocalAddr().(*net.UDPAddr).IP) {
		return false
	}
	if _, err := to.Write([]byte{0}); err != nil {
		return false
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, _, err = c.ReadFrom(make([]byte, 1))
	return err == nil
}
