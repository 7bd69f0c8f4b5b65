package peer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Finish()
	os.Exit(code)
}

func TestPeerStartsAndStops(t *testing.T) {
	Require(t)
	testutil.NeedRoot(t) // PCP's agents linux and proc end as an ordinary user
	d, err := Start(CPmcd, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if agents := Descendants(d.PID()); len(agents) != 4 { // pmcd's own is in the process
		t.Errorf("agents %v, want 4", agents)
	}
	for _, tr := range Transports {
		if tr == TCP6 && IPv6() != nil {
			continue
		}
		o, err := d.Run(t.Context(), tr, Client{Args: []string{"pminfo", "-h", "{host}", "-f", "pmcd.pid"}})
		if err != nil || o.Code != 0 || !strings.Contains(o.Stdout, "value") {
			t.Errorf("%v: %v\n%s", tr, err, o)
		}
	}
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	if err := greeting("unix", d.Sock); err == nil {
		t.Error("it greets although it was stopped")
	}
}

// wrapper is a program that runs PCP's pmcd in a way that tests must notice.
func wrapper(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pmcd")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPeerNoticesABadEnd(t *testing.T) {
	Require(t)
	for _, c := range []struct{ name, script, want string }{
		{"status", `
			` + CPmcd + ` "$@" & pid=$!
			trap 'kill $pid; wait $pid; exit 3' TERM
			while :; do wait; done`, "exit status 3"},
		{"agent left", `
			sleep 1000 &
			exec ` + CPmcd + ` "$@"`, "left agent"},
		{"race", `
			echo "WARNING: DATA RACE"
			exec ` + CPmcd + ` "$@"`, "found a race"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Start(wrapper(t, c.script), Config{})
			if err != nil {
				t.Fatal(err)
			}
			err = d.Stop()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Stop() = %v, want %q", err, c.want)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		d, err := Start(CPmcd, Config{})
		if err != nil {
			t.Fatal(err)
		}
		agents := Descendants(d.PID())
		d.Signal(syscall.SIGKILL)
		<-d.Exited()
		if err := d.Stop(); err == nil || !strings.Contains(err.Error(), "ended before it was stopped") {
			t.Errorf("Stop() = %v", err)
		}
		if !Until(testutil.Hangs, func() bool { return len(killLeft(agents)) == 0 }) {
			t.Error("agents are left")
		}
	})
	t.Run("does not start", func(t *testing.T) {
		_, err := Start(wrapper(t, "echo no such luck; exit 1"), Config{})
		if err == nil || !strings.Contains(err.Error(), "no such luck") {
			t.Errorf("Start() = %v, want the program's words", err)
		}
	})
}

func TestPeerClientThatHangsIsEnded(t *testing.T) {
	Require(t)
	d := StartT(t, CPmcd, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.Run(ctx, TCP4, Client{Args: []string{"/bin/sh", "-c", "sleep 1000; :"}})
	if err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("Run() = %v", err)
	}
}
