package daemon

import (
	"context"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/pmcdconf"
)

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
	r.play(243, serveAgent(&agentsettest.Tester{Domain: 243}))
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
