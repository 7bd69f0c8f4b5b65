package main

import (
	"context"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// An address of -i that cannot be listened at is a warning in the log, a part of
// the status for the service manager, and a problem for pmcdctl.
func TestUnboundAddress(t *testing.T) {
	s := pmcdtest.NewService(t, "-F", "-i", "fe80::1%nosuch0")
	m := pmcdtest.NewManager(t, s.Path("notify"))
	s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("notify"))
	s.Start()
	m.Next() // starting agents
	s.OpenGate()
	const want = "no client is accepted at address fe80::1%nosuch0, port "
	if got := m.Next(); len(got) != 3 || !strings.Contains(strings.Join(got, "\n"), "\nSTATUS=serving, ") || !strings.Contains(strings.Join(got, "\n"), "; "+want) {
		t.Errorf("the manager got %q", got)
	}
	log := s.Read("pmcd.log")
	if !strings.Contains(log, "\nWarning: "+want) || strings.Contains(log, "  err   -1") {
		t.Errorf("the log:\n%s", log)
	}
	r, err := ctl.Ask(context.Background(), ctl.Path(s.Path("sock")))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], want) {
		t.Errorf("problems: %q", r.Problems)
	}
}
