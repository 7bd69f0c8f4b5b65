package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// As many clients are accepted as the limit says, and another one when the socket
// of one of them is closed.
func TestClientLimit(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r := newHarness(t, nil, nil)
		r.awaitStarts()
		addr := map[string]string{"tcp": r.tcp, "unix": r.unix}[network]
		r.acceptor.Load().SetLimit(3)
		var in []*client
		for range 3 {
			c := r.dialTo(network, addr, 0)
			c.ask()
			in = append(in, c)
		}
		late := r.connect(network, addr)
		r.awaitLogged(t, "AcceptNewClient: 3 clients are connected")
		if n := r.sessions.NumClients(); n != 3 {
			t.Errorf("%s: %d clients", network, n)
		}
		if got := r.Problems(); len(got) != 1 || !strings.HasPrefix(got[0], "3 clients are connected, ") {
			t.Errorf("%s: problems %q", network, got)
		}
		for _, c := range in {
			c.ask()
		}
		in[1].Conn.Close()
		if got := show(late.recv()); got != "0" {
			t.Errorf("%s: %s", network, got)
		}
		if n := r.acceptor.Load().Stats().Open; n != 3 {
			t.Errorf("%s: %d sockets are open", network, n)
		}
		in[0].Conn.Close()
		testutil.Eventually(t, "there is no problem", func() bool { return len(r.Problems()) == 0 })
	}
}

// A limit that is too low for what agents may need is logged once, and a problem as long
// as it is too low.
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
	const want = "RLIMIT_NOFILE is 100: pmcd and its agents may need 318 descriptors and have 75, and at most 25 clients are accepted; raise it (LimitNOFILE=, ulimit -n) and restart pmcd"
	n := 0
	for _, e := range r.logs.All() {
		if e.Message == want {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d lines", n)
	}
	if got := r.Problems(); !slices.Equal(got, []string{want}) {
		t.Errorf("problems %q", got)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	if got := r.Problems(); len(got) != 0 {
		t.Errorf("with a higher limit: problems %q", got)
	}
}

// A limit that is raised counts at SIGHUP, also while a reload waits for an agent.
func TestLimitDuringReload(t *testing.T) {
	opening, open := make(chan struct{}), make(chan struct{})
	r := newHarness(t, openHook(func(_ context.Context, spec *pmcdconf.Agent) error {
		if spec.Name == "slow" {
			opening <- struct{}{}
			<-open
		}
		return nil
	}), nil)
	r.awaitStarts()
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
	r.play(243, serveAgent(&tester{domain: 243}))
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nslow 243 pipe binary t\n")
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 200, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	r.Reload()
	<-opening
	if len(r.Problems()) == 0 {
		t.Error("no problem with a low limit")
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	r.Reload()
	if got := r.Problems(); len(got) != 0 {
		t.Errorf("with a higher limit: problems %q", got)
	}
	close(open)
}
