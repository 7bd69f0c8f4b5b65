package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A client that connects in time is served all metrics, whatever number of others
// come: accept stops before agents, their files, restarts, reloads, the log and the
// status socket run out of descriptors.
func TestDescriptorReserve(t *testing.T) {
	const soft, hard = 300, 512
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path(pmcdtest.ScriptName)); err != nil {
		t.Fatal(err)
	}
	// The agent has the limit that pmcd was started with.
	script := fmt.Sprintf("#!/bin/sh\nulimit -Sn >%s\nexec %s %s good\n", path("limit"), path(pmcdtest.ScriptName), dir)
	if err := os.WriteFile(path("agent"), []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Abs("../../etc/root")
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("pmcd 2 dso pmcd_init /none\nlinux 60 dso linux_init /none\ngood 299 pipe binary %s\n", path("agent"))
	write := func() {
		if err := os.WriteFile(path("conf"), []byte(conf), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write()
	cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -Sn %d && ulimit -Hn %d && exec "$@"`, soft, hard), "sh", self,
		"-f", "-c", path("conf"), "-n", names, "-s", path("sock"), "-l", path("log"), "-i", "127.0.0.1", "-p", "0", "-q", "30", "-t", "30")
	cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("pmcd: %v", err)
		}
		text, _ := os.ReadFile(path("log"))
		if n := strings.Count(string(text), "AcceptNewClient: ") - strings.Count(string(text), "like this w"); n != 1 || t.Failed() {
			t.Errorf("the log has %d lines about clients that wait:\n%s", n, text)
		}
	}()
	var first *pmapi.Client
	if !peer.Until(peer.Hangs, func() bool { first, err = pmcdtest.Connect(path("sock")); return err == nil }) {
		t.Fatal(err)
	}
	defer first.Close()
	agent := func(id int) bool {
		v, err := pmcdtest.Value(first, pdu.NewPMID(id, 0, 1))
		return err == nil && v == 1
	}
	if !peer.Until(peer.Hangs, func() bool { return agent(299) }) {
		t.Fatal("the agent does not start")
	}

	ask := func() (*ctl.Report, error) {
		ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
		defer cancel()
		return ctl.Ask(ctx, ctl.Path(path("sock")))
	}

	clients := fill(t, path("sock"))
	if n := len(clients); n < hard/4 || n > hard/2 {
		t.Errorf("%d clients are accepted", n)
	}
	waiting, err := net.Dial("unix", path("sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()

	values := pmcdtest.FetchAll(t, first)
	some := 0
	for id, n := range values {
		if id.Domain() == 60 && n > 0 {
			some++
		}
	}
	if some < 300 {
		t.Errorf("%d metrics of the kernel have values", some)
	}
	r, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	pid := r.Agents[2].PID
	if n, err := os.ReadFile(path("limit")); string(n) != fmt.Sprintln(soft) {
		t.Errorf("limit of the agent: %q, %v", n, err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	if !peer.Until(peer.Hangs, func() bool { r, err := ask(); return err == nil && r.Agents[2].PID != pid }) {
		t.Error("the agent does not die")
	}
	if !peer.Until(peer.Hangs, func() bool { return agent(299) }) {
		t.Error("the agent is not started again")
	}
	conf += fmt.Sprintf("new 300 pipe binary %s %s good\n", path(pmcdtest.ScriptName), dir)
	write()
	cmd.Process.Signal(syscall.SIGHUP)
	if !peer.Until(peer.Hangs, func() bool { return agent(300) }) {
		t.Error("a reload does not start an agent")
	}
	if r, err := ask(); err != nil {
		t.Errorf("status: %v", err)
	} else if len(r.Agents) != 4 || len(r.Clients) != len(clients)+1 {
		t.Errorf("status has %d agents and %d clients, want 4 and %d", len(r.Agents), len(r.Clients), len(clients)+1)
	}
	// While all clients were connected, each metric had its values.
	for _, c := range clients {
		c.Close()
	}
	waiting.SetDeadline(time.Now().Add(testutil.Hangs))
	if _, err := io.ReadFull(waiting, make([]byte, 20)); err != nil {
		t.Errorf("the client that waited: %v", err)
	}
	for id, n := range pmcdtest.FetchAll(t, first) {
		if was := values[id]; n > 0 && was <= 0 && id.Domain() == 60 {
			t.Errorf("%v has %d values, and had %d while all clients were connected", id, n, was)
		}
	}
}
