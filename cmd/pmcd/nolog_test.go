package main

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// A log that cannot be opened is a problem for pmcdctl, as the log cannot say so.
func TestNoLog(t *testing.T) {
	s := pmcdtest.NewService(t, "-f", "-l", "nosuch/pmcd.log")
	var stderr strings.Builder
	s.Cmd.Stderr = &stderr
	s.Start()
	s.Greets(s.Path("sock"))
	r, err := ctl.Ask(t.Context(), ctl.Path(s.Path("sock")))
	if err != nil {
		t.Fatal(err)
	}
	const want = `cannot open log "nosuch/pmcd.log" for writing : no such file or directory; `
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], want) {
		t.Errorf("problems %q, want %q", r.Problems, want)
	}
	s.OpenGate()
	s.Stop()
	if n := strings.Count(stderr.String(), want); n != 1 || !strings.HasPrefix(stderr.String(), "pmcd: "+want) {
		t.Errorf("%d lines about it:\n%s", n, &stderr)
	}
}

// A log that cannot be written is a problem for pmcdctl and the service manager, and its lines
// go to the standard error output.
func TestFullLog(t *testing.T) {
	s := pmcdtest.NewService(t, "-F", "-l", "/dev/full")
	m := pmcdtest.NewManager(t, s.Path("notify"))
	s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("notify"))
	var stderr strings.Builder
	s.Cmd.Stderr = &stderr
	s.Start()
	s.Greets(s.Path("sock"))
	r, err := ctl.Ask(t.Context(), ctl.Path(s.Path("sock")))
	if err != nil {
		t.Fatal(err)
	}
	const want = "cannot write to the log /dev/full: write /dev/stderr: no space left on device; its lines go to the standard error output; "
	if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0], want) {
		t.Errorf("problems %q, want %q", r.Problems, want)
	}
	s.OpenGate()
	for ready := false; !ready; {
		lines := m.Next()
		ready = lines[0] == "READY=1"
		if status := lines[len(lines)-1]; ready && !strings.Contains(status, want) {
			t.Errorf("got %q", status)
		}
	}
	s.Stop()
	for _, want := range []string{"Error: cannot write to the log: ", "pmcd request port(s):", "pmcd Shutdown"} {
		if n := strings.Count(stderr.String(), want); n != 1 {
			t.Errorf("%d lines with %q:\n%s", n, want, &stderr)
		}
	}
}
