package daemon

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// inOwnNetwork runs a test in a network name space of its own, and reports whether
// this is it. In it the loopback interface is up.
func inOwnNetwork(t *testing.T) bool {
	const inside = "DAEMON_TEST_NETNS"
	if os.Getenv(inside) != "" {
		return true
	}
	require := t.Skipf
	if os.Getenv("PMCD_REQUIRE_PEERS") == "1" {
		require = t.Fatalf
	}
	if os.Getuid() != 0 {
		require("only root may make name spaces")
	}
	if out, err := exec.Command("unshare", "-n", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		require("no network name space: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-n", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}

// An address that is not there yet is listened at, and clients are served when it
// is there. A client at a link-local address is served as others are.
func TestAbsentAddress(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	addrs := []string{"192.0.2.1", "2001:db8::1", "fe80::1%lo"}
	for i, a := range addrs {
		if isOwn(a) {
			t.Errorf("%s is there", a)
		}
		l, err := Listen([]string{a}, []int{0}, "")
		if err != nil {
			t.Fatal(err)
		}
		// The rules are those of PCP, with one for the address.
		host, _, _ := strings.Cut(a, "%")
		r := newRig(t, func(c *Config) {
			c.Listeners.Close()
			c.Listeners = l
			withAccess(fmt.Sprintf("disallow \".*\" : store;\ndisallow \":*\" : store;\nallow \"%s\" : all;\nallow \"local:*\" : all;\n", host))(c)
		}, nil)
		if len(l.Addrs()) != 1 || len(l.Unbound()) != 0 {
			t.Errorf("%v, unbound %q", l.Addrs(), l.Unbound())
		}
		length := map[bool]string{true: "/32", false: "/128"}[i == 0]
		run(t, "ip", "addr", "add", host+length, "dev", "lo")
		if i > 0 {
			// Without nodad an address cannot be used for a moment.
			run(t, "ip", "addr", "replace", host+length, "dev", "lo", "nodad")
		}
		if !isOwn(a) {
			t.Errorf("%s is not there", a)
		}
		_, port, _ := net.SplitHostPort(l.Addrs()[0].String())
		c := r.dialTo("tcp", net.JoinHostPort(a, port), 0)
		c.ask()
		c.send(&pdu.Profile{})
		if got := show(c.do(&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}})); got != "240.0.1=240" {
			t.Errorf("%s: fetch: %s", a, got)
		}
		s := r.clients.session(0)
		if s.addr != a || s.denied() != 0 {
			t.Errorf("client at %s, %v denied; want %s and nothing", s.addr, s.denied(), a)
		}
	}
}

// An address of another host is not taken for one of this host's where one may bind
// to any: the pmcd that answers there is no reason not to start.
func TestNonlocalBind(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := os.WriteFile("/proc/sys/net/"+family+"/ip_nonlocal_bind", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "lo")
	run(t, "ip", "addr", "add", "192.0.2.2/24", "dev", "lo")
	run(t, "ip", "addr", "add", "2001:db8::1/64", "dev", "lo", "nodad")
	run(t, "ip", "addr", "add", "fe80::1/64", "dev", "lo", "nodad")
	for addr, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": true, "192.0.2.3": false, "127.0.0.2": true, "0.0.0.0": true,
		"2001:db8::1": true, "2001:db8::2": false, "fe80::1%lo": true, "fe80::2%lo": false, "::1": true, "::": true,
		"::ffff:192.0.2.1": true, "::ffff:192.0.2.3": false,
	} {
		if got := isOwn(addr); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
}

// An address that cannot be listened at is told of, with the reason, and not among
// those that clients can connect to.
func TestUnboundAddresses(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	l, err := Listen([]string{"127.0.0.1", "fe80::1%nosuch0"}, []int{port, 0}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := []string{
		fmt.Sprintf("no client is accepted at address 127.0.0.1, port %d (-i): bind: address already in use", port),
		fmt.Sprintf("no client is accepted at address fe80::1%%nosuch0, port %d (-i): bind: invalid argument", port),
		"no client is accepted at address fe80::1%nosuch0, port 0 (-i): bind: invalid argument",
	}
	if got := l.Unbound(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := l.String(); strings.Contains(text, "err") || strings.Contains(text, "nosuch0") {
		t.Errorf("the table has them:\n%s", text)
	}
	if len(l.Addrs()) != 1 {
		t.Errorf("listening at %v", l.Addrs())
	}
	if _, err := Listen([]string{"fe80::1%nosuch0"}, []int{0}, ""); err == nil || !strings.Contains(err.Error(), "can't open any request ports") {
		t.Errorf("without any address: %v", err)
	}
}

// A client of PCP's at a link-local address is served.
func TestPeerLinkLocal(t *testing.T) {
	if _, err := exec.LookPath("pminfo"); err != nil {
		if os.Getenv("PMCD_REQUIRE_PEERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if !inOwnNetwork(t) {
		return
	}
	run(t, "ip", "addr", "add", "fe80::1/128", "dev", "lo", "nodad")
	r := newRig(t, func(c *Config) {
		c.Listeners.Close()
		var err error
		if c.Listeners, err = Listen(nil, []int{0}, ""); err != nil {
			t.Fatal(err)
		}
		withAccess("disallow \".*\" : store;\ndisallow \":*\" : store;\nallow \"local:*\" : all;\n")(c)
	}, nil)
	r.settled()
	for _, a := range r.cfg.Listeners.Addrs() {
		host, port, _ := net.SplitHostPort(a.String())
		if host != "::" {
			continue
		}
		cmd := exec.Command("pminfo", "-f", "-h", "pcp://[fe80::1%lo]:"+port, "t.one")
		cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=")
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "t.one\n    value 240" {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	t.Error("no listener for IPv6")
}
