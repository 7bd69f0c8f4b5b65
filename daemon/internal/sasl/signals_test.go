package sasl_test

import (
	"syscall"
	"testing"
)

// Signals that a terminal or a service manager sends to all processes of pmcd end neither
// the helper nor a login: pmcd does that.
func TestPeerSignals(t *testing.T) {
	h := newHarness(t, database, nil)
	e := h.begin(login("a"))
	h.challenge(e, "LOGIN")
	for _, pid := range append(h.children(), h.procs[0].PID()) {
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
			syscall.Kill(pid, sig)
		}
	}
	h.challenge(e, "alice")
	if _, done, user, err := e.Step(t.Context(), []byte(password)); !done || user != "alice" {
		t.Errorf("the login: %v, %q, %v", done, user, err)
	}
	h.wantLogin()
	if n := len(h.procs); n != 1 {
		t.Errorf("%d helpers were started, want 1", n)
	}
	if list := h.log.All(); len(list) > 0 {
		t.Errorf("log: %+v", list)
	}
}
