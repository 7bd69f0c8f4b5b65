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
