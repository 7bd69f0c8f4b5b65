package daemon

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/testutil"
)

// As many clients are accepted as the limit says, and another one when the socket
// of one of them is closed.
func TestClientLimit(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r := newHarness(t, nil, nil)
		r.awaitStarts()
		addr := map[string]string{"tcp": r.tcp, "unix": r.unix}[network]
		r.acceptor.SetLimit(3)
		var in []*client
		for range 3 {
			c := r.dialTo(network, addr, 0)
			c.ask()
			in = append(in, c)
		}
		late := r.connect(network, addr)
		testutil.Eventually(t, "accept stops", func() bool { return r.logged("AcceptNewClient: 3 clients are connected") })
		if n := r.sessions.NumClients(); n != 3 {
			t.Errorf("%s: %d clients", network, n)
		}
		for _, c := range in {
			c.ask()
		}
		in[1].conn.Close()
		if got := show(late.recv()); got != "0" {
			t.Errorf("%s: %s", network, got)
		}
		if n := r.acceptor.Stats().Open; n != 3 {
			t.Errorf("%s: %d sockets are open", network, n)
		}
	}
}

// A limit that is too low for what agents may need is logged once.
func TestSmallLimit(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	r.limitClients()
	r.limitClients()
	const want = "RLIMIT_NOFILE is 100: pmcd and its agents may need 318 descriptors and have 75, and at most 25 clients are accepted; raise it (LimitNOFILE=, ulimit -n)"
	n := 0
	for _, e := range r.logs.All() {
		if e.Message == want {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines", n)
	}
}
