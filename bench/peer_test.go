package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// peers returns options for a comparison of PCP's pmcd and this one.
func peers(t *testing.T) *options {
	t.Chdir("..")
	o := &options{pmcd: filepath.Join(t.TempDir(), "pmcd"), c: "/usr/lib/pcp/bin/pmcd", names: "all",
		rounds: 1, time: 20 * time.Millisecond, progress: t.Output(), args: []string{"-q", "60", "-t", "60"}}
	for _, f := range []string{o.c, ".peers/pmdasimple"} {
		testutil.NeedPeer(t, f)
	}
	if out, err := exec.Command("go", "build", "-race", "-buildvcs=false", "-o", o.pmcd, "./cmd/pmcd").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.base = t.TempDir()
	// Agents become user pcp.
	for _, dir := range []string{filepath.Dir(o.base), o.base} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// TestPeerScenarios runs the scenarios with both daemons, except those that take long
// or crash C pmcd. Nothing may fail.
func TestPeerScenarios(t *testing.T) {
	o := peers(t)
	var names []string
	for _, s := range scenarios {
		if !s.calm && !s.host && s.rounds != 1 && s.setup.gen < manyNames && s.name != "clients" && !strings.Contains(s.name, "storm") && s.name != "connect-16" && s.name != "tls-connect-64" {
			names = append(names, s.name)
		}
	}
	comparePeers(t, o, names)
}

// TestPeerCalm runs scenarios of group calm with both daemons: one of each setup, and all of them
// with PMCD_LONG=1, which takes minutes. Nothing may fail.
func TestPeerCalm(t *testing.T) {
	o := peers(t)
	o.time = time.Second
	names := []string{"calm-1", "calm-pipes", "calm-tls", "calm-own"}
	if os.Getenv("PMCD_LONG") == "1" {
		names = nil
		for _, s := range calmScenarios() {
			names = append(names, s.name)
		}
	}
	comparePeers(t, o, names)
}

// comparePeers runs the named scenarios, and expects all numbers and no errors.
func comparePeers(t *testing.T, o *options, names []string) {
	t.Helper()
	o.names = strings.Join(names, ",")
	picked, err := o.pick()
	if err != nil {
		t.Fatal(err)
	}
	results, err := o.compare(picked, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(names) {
		t.Errorf("%d results of %d scenarios", len(results), len(names))
	}
	for i := range results {
		r := &results[i]
		for s := range r.Sides {
			if side := &r.Sides[s]; side.Errors > 0 {
				t.Errorf("%s, %s: %d errors, %s", r.Scenario, sideNames[s], side.Errors, side.Error)
			}
			for _, m := range r.shows {
				if _, ok := r.Sides[s].median(m.key); !ok {
					t.Errorf("%s, %s: no %s", r.Scenario, sideNames[s], m.key)
				}
			}
		}
	}
}

// TestPeerOurs runs scenarios in which C pmcd fails, with this pmcd only.
func TestPeerOurs(t *testing.T) {
	o := peers(t)
	for _, s := range scenarios {
		switch s.name {
		case "slow-agent", "half-pdu", "flood":
			s.run = map[string]func(*run) error{
				"slow-agent": contention(100*time.Millisecond, waiting),
				"half-pdu":   contention(100*time.Millisecond, halfPDU),
				"flood":      contention(100*time.Millisecond, floodFetch),
			}[s.name]
		case "storm-64", "storm-1000", "connect-16", "tls-storm-64", "tls-connect-64":
		default:
			continue
		}
		var d *daemon
		var out side
		o.round(s, ours, &d, &out)
		if d != nil {
			d.stop()
		}
		if out.Errors > 0 || len(out.Rounds) != 1 {
			t.Errorf("%s: %d rounds, %d errors, %s", s.name, len(out.Rounds), out.Errors, out.Error)
		}
	}
}

func TestPeerSoak(t *testing.T) { testPeerSoak(t, 0) }

func TestPeerSoakLoggers(t *testing.T) {
	if os.Getenv("PMCD_LONG") != "1" {
		t.Skip("set PMCD_LONG=1") // TestPeerSoak has the same deaths and reloads
	}
	testPeerSoak(t, 8)
}

func testPeerSoak(t *testing.T, loggers int) {
	o := peers(t)
	o.soak, o.soakLoggers = 20*time.Second, loggers
	var out bytes.Buffer
	err := runSoak(o, &out, nil)
	t.Logf("\n%s", &out)
	if err != nil {
		t.Fatal(err)
	}
	last := strings.Split(strings.TrimSpace(out.String()), "\n")[soakPhases-1]
	if !strings.Contains(last, " 0 failed") || !strings.Contains(last, " deaths") || !strings.Contains(last, " reloads") {
		t.Error("nothing has happened")
	}
}
