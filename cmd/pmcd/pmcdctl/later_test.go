package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/watch"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Watch shows metrics and instances that appear later, and those that go no longer.
func TestWatchLater(t *testing.T) {
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	watchLater(t, path, "simple 253 dso simple_init /none", "trivial 250 dso trivial_init /none")
}

// The same with PCP's pmcd and agents.
func TestPeerWatchLater(t *testing.T) {
	peer.Require(t)
	var lines []string
	for _, agent := range []string{"simple 253", "trivial 250"} {
		name, domain, _ := strings.Cut(agent, " ")
		path, err := peer.Built("pmda" + name)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, agent+" pipe binary "+path+" -d "+domain)
	}
	watchLater(t, peer.CPmcd, lines...)
}

// watchLater watches the metrics of a pmcd with one agent, and then with a second one.
func watchLater(t *testing.T, path string, agents ...string) {
	noConf(t)
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	d, err := peer.Start(path, peer.Config{Bare: true, Agents: agents[:1], PMNS: "root { x }\nx { now 253:2:4 }\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	mtime := time.Now().Add(-time.Hour)
	rewrite := func(name, text string) {
		t.Helper()
		name = filepath.Join(d.Dir, name)
		write(t, name, text)
		mtime = mtime.Add(time.Minute) // some compare whole seconds
		if err := os.Chtimes(name, mtime, mtime); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(d.Dir, "pmdas/simple"), 0o755); err != nil {
		t.Fatal(err)
	}
	rewrite("pmdas/simple/simple.conf", "sec\n")

	// What each watches, with its output.
	watches := map[string]*buffer{"x": {}, "x.now[sec] x.now[min]": {}}
	for args, stdout := range watches {
		cmd := exec.Command(pmcdctl, append([]string{"watch", "--json", "-t", "20ms", "-h", d.Host(peer.Unix)}, strings.Fields(args)...)...)
		cmd.Stdout, cmd.Stderr = stdout, stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", args, err)
			}
		}()
	}
	// shows waits for a sample with exactly these metrics.
	shows := func(args string, want ...string) {
		t.Helper()
		var got []string
		if !peer.Until(testutil.Hangs, func() bool {
			got = lastSample(watches[args].String())
			return slices.Equal(got, want)
		}) {
			text := watches[args].String()
			t.Fatalf("%s: got %q, want %q\n%s", args, got, want, text[max(0, len(text)-1000):])
		}
	}

	shows("x", "x.now[sec]")
	shows("x.now[sec] x.now[min]", "x.now[sec]", `instance "min" of 253.1: no such instance`)
	rewrite("pmdas/simple/simple.conf", "sec,min\n")
	shows("x", "x.now[sec]", "x.now[min]")
	shows("x.now[sec] x.now[min]", "x.now[sec]", "x.now[min]")

	reload := func(pmns string, agents ...string) {
		t.Helper()
		rewrite("conf", strings.Join(agents, "\n")+"\n")
		rewrite("pmns", pmns)
		if err := d.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	simple, trivial := agents[0], agents[1]
	reload("root { x }\nx { a 250:0:0 now 253:2:4 }\n", simple, trivial)
	shows("x", "x.a", "x.now[sec]", "x.now[min]")
	reload("root { x }\nx { a 250:0:0 }\n", trivial)
	shows("x", "x.a")
	shows("x.now[sec] x.now[min]", `"x.now": no metric of that name`, `"x.now": no metric of that name`)
	// Then none of the metrics exists, and there is nothing to fetch.
	reload("root { y }\ny { a 250:0:0 }\n", simple)
	shows("x", `"x.a": no metric of that name`)
	reload("root { x }\nx { b 250:0:0 now 253:2:4 }\n", simple, trivial)
	shows("x", "x.b", "x.now[sec]", "x.now[min]")
	shows("x.now[sec] x.now[min]", "x.now[sec]", "x.now[min]")
	// pmcd tells of agents that have changed, but not of names only.
	reload("root { x }\nx { b 250:0:0 c 250:0:0 }\n", simple, trivial)
	shows("x", "x.b", "x.c")
}

// lastSample returns the labels and the errors of the last sample in the output of watch as
// JSON.
func lastSample(text string) (labels []string) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return nil
	}
	var sample metrics.Sample
	if err := json.Unmarshal([]byte(lines[len(lines)-2]), &sample); err != nil {
		return []string{err.Error()}
	}
	for _, m := range sample.Metrics {
		if m.Error != "" {
			labels = append(labels, m.Error)
		}
		for _, v := range m.Values {
			labels = append(labels, v.Label(m.Name))
		}
	}
	return labels
}

// Samples that could not be had count, so that watch -s ends without a pmcd, too.
func TestWatchWithoutPmcd(t *testing.T) {
	f := clientFlags{host: startPmcd(t, "").Host(peer.Unix)}
	c, err := f.dial(t.Context(), f.host, true, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	c.Close() // so that each fetch fails, and at once
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	var out, problems strings.Builder
	good, err := watch.Run(ctx, metrics.NewPlainSampler(c, []metrics.Selection{{Name: "simple.now"}}),
		watch.Options{Interval: time.Millisecond, Samples: 2, Out: &out, Err: &problems})
	if good || err != nil || ctx.Err() != nil || out.Len() > 0 || strings.Count(problems.String(), "\n") != 2 {
		t.Errorf("%v, %v, %v, %d lines of errors\n%s", good, err, ctx.Err(), strings.Count(problems.String(), "\n"), &out)
	}
}
