package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
)

// An address of -i that cannot be listened at is a warning in the log, a part of
// the status for the service manager, and a problem for pmcdctl.
func TestUnboundAddress(t *testing.T) {
	s := newService(t, "-F", "-i", "fe80::1%nosuch0")
	m := newManager(t, s.path("notify"))
	s.cmd.Env = append(s.cmd.Env, "NOTIFY_SOCKET="+s.path("notify"))
	s.start()
	m.next() // starting agents
	s.openGate()
	const want = "no client is accepted at address fe80::1%nosuch0, port "
	if got := m.next(); len(got) != 3 || !strings.Contains(strings.Join(got, "\n"), "\nSTATUS=serving, ") || !strings.Contains(strings.Join(got, "\n"), "; "+want) {
		t.Errorf("the manager got %q", got)
	}
	log := s.read("pmcd.log")
	if !strings.Contains(log, "\nWarning: "+want) || strings.Contains(log, "  err   -1") {
		t.Errorf("the log:\n%s", log)
	}
	r, err := ctl.Ask(context.Background(), ctl.Path(s.path("sock")))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], want) {
		t.Errorf("problems: %q", r.Problems)
	}
	var b bytes.Buffer
	if err := printStatus(&b, r); err != nil || !strings.Contains(b.String(), "\nproblem:       "+want) {
		t.Errorf("status, %v:\n%s", err, &b)
	}
}
