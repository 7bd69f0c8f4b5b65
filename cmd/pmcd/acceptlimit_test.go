package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// When descriptors run out, connected clients are served, one line is logged, the status
// has a problem, and a client that waits is accepted when another disconnects.
func TestDescriptorsRunOut(t *testing.T) {
	dir := t.TempDir()
	sock, logName := filepath.Join(dir, "sock"), filepath.Join(dir, "log")
	conf, names := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns")
	for name, text := range map[string]string{conf: "pmcd 2 dso pmcd_init /none\n", names: "root { pmcd }\npmcd { numclients 2:0:3 }\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -n 40 && exec "$@"`, "sh", self, "-f", "-c", conf, "-n", names, "-s", sock, "-l", logName, "-i", "127.0.0.1", "-p", "0")
	cmd.Env = append(os.Environ(), "PMCD_TEST_RUN=1", "PCP_CONF=/dev/null", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("pmcd: %v", err)
		}
		// At the end pmcd logs how many clients were not accepted.
		text, _ := os.ReadFile(logName)
		if strings.Count(string(text), "AcceptNewClient")-strings.Count(string(text), "like this w") != 1 || t.Failed() {
			t.Errorf("the log, which should have one line about it:\n%s", text)
		}
	}()
	var first *pdutest.Client
	for deadline := time.Now().Add(testutil.Hangs); first == nil; {
		if first, err = pmcdtest.Greeted(sock, 5*time.Second); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	defer first.Close()
	problems := func(want ...string) {
		t.Helper()
		var r *ctl.Report
		if !peer.Until(peer.Hangs, func() bool {
			r, err = ctl.Ask(t.Context(), ctl.Path(sock))
			return err == nil && slices.EqualFunc(r.Problems, want, strings.Contains)
		}) {
			t.Errorf("%v, %+v; want problems %q", err, r, want)
		}
	}
	const few = "RLIMIT_NOFILE is 40: pmcd and its agents may need 263 descriptors and have 30, and at most 10 clients are accepted"
	problems(few)
	in := fill(t, sock)
	// The first is served although there is no room for more.
	first.SetDeadline(time.Now().Add(testutil.Hangs))
	if err := first.Send(pdutest.Creds(0)); err != nil {
		t.Fatal(err)
	}
	if reply, err := first.Do(&pdu.DescReq{PMID: pdu.NewPMID(2, 0, 3)}); err != nil || reply.Type() != pdu.TypeDesc {
		t.Errorf("a connected client got %+v, %v", reply, err)
	}
	problems(few, "10 clients are connected, as many as RLIMIT_NOFILE allows")
	for _, conn := range in[:len(in)/2] {
		conn.Close()
	}
	conn, err := pmcdtest.Greeted(sock, testutil.Hangs)
	if err != nil {
		t.Fatal(fmt.Errorf("not accepted although others have disconnected: %w", err))
	}
	conn.Close()
	problems(few)
}

// fill connects clients until pmcd accepts no more.
func fill(t *testing.T, sock string) (clients []net.Conn) {
	t.Helper()
	full := func() bool {
		conn, err := pmcdtest.Greeted(sock, time.Second)
		if err == nil {
			clients = append(clients, conn)
			t.Cleanup(func() { conn.Close() })
			return false
		}
		r, err := ctl.Ask(t.Context(), ctl.Path(sock)) // or the greeting was late
		return err == nil && strings.Contains(strings.Join(r.Problems, "\n"), " clients are connected, as many as RLIMIT_NOFILE allows")
	}
	if !peer.Until(peer.Hangs, full) {
		t.Fatalf("%d clients are accepted, and there is no limit", len(clients))
	}
	return clients
}
