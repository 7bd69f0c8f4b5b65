package reload

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// startOurs starts our pmcd with two agents.
func startOurs(t *testing.T, args ...string) (d *peer.Daemon, stop func(), agents []string) {
	t.Helper()
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	if agents, err = peer.StandardAgents(); err != nil {
		t.Fatal(err)
	}
	agents = agents[:2]
	d, stop = start(t, path, peer.Config{Agents: agents, Args: args})
	return d, stop, agents
}

// With --watch the program follows its files without a signal.
func TestWatchOption(t *testing.T) {
	d, _, agents := startOurs(t, "--watch")
	c := dial(t, d)
	conf := filepath.Join(d.Dir, "conf")
	step := func(text string, there bool) {
		t.Helper()
		if err := os.WriteFile(conf+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(conf+".new", conf); err != nil {
			t.Fatal(err)
		}
		var got string
		if !peer.Until(peer.Hangs, func() bool { got, _ = c.fetch(simpleID); return (got != "PM_ERR_NOAGENT") == there }) {
			t.Errorf("got %s, the agent should be there: %v", got, there)
		}
	}
	step(agents[0]+"\n", false)
	step(strings.Join(agents, "\n")+"\n", true)
	if got := c.number(sighups); got != 0 {
		t.Errorf("pmcd.sighups is %d", got)
	}
}

// With --log-format=json each line of the log is an object, from the first to the last.
func TestLogFormatJSON(t *testing.T) {
	d, stop, _ := startOurs(t, "--log-format=json", "-T", "3", "-D", "pdu")
	c := dial(t, d)
	c.fetch(simpleID)
	write(t, d, "conf", "bad \"line\n")
	hangup(t, d)
	stop()
	want := []string{
		"Log for pmcd on ", "active agent dom", "pmcd request port", "to client[0]: HIGHRES_RESULT", "pmcd RESTARTED at ",
		"conf:1:5: ", "Configuration file 'conf' has errors", "pmcd Shutdown", "Log finished ",
	}
	for line := range strings.Lines(d.Log()) {
		var e struct {
			Level, Msg string
			Time       time.Time
			PID        int
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Level == "" || e.Msg == "" || e.PID != d.PID() || time.Since(e.Time) > time.Hour {
			t.Errorf("got %+v from %s", e, line)
		}
		if len(want) > 0 && strings.Contains(e.Msg, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("missing, or out of order: %q\n%s", want, d.Log())
	}
}

// The host may get another name while pmcd runs.
func TestHostnameChange(t *testing.T) {
	peer.Require(t)
	testutil.NeedRoot(t) // to give a host another name
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	// A pmcd whose host is its own.
	alone := filepath.Join(t.TempDir(), "pmcd")
	if err := os.WriteFile(alone, []byte("#!/bin/sh\nexec unshare --uts "+path+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	agents, err := peer.StandardAgents()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, alone, peer.Config{Agents: agents[:2]})
	c := dial(t, d)
	c.fetch(simpleID)
	was, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("nsenter", "--uts", "-t", strconv.Itoa(d.PID()), "hostname", was+"-other").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	hangup(t, d)
	if _, changes := c.fetch(simpleID); changes&pdu.StateHostname == 0 {
		t.Errorf("state changes %d", changes)
	}
	if log := d.Log(); !strings.Contains(log, "hostname changed from "+was+" to "+was+"-other") {
		t.Error("it is not in the log")
	}
}
