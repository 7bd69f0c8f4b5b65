package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// memoryGroup makes a control group whose memory is limited. It returns its directory, and the
// file that has the number of processes that were killed.
func memoryGroup(t *testing.T, limit int) (dir, killed string) {
	t.Helper()
	testutil.NeedRoot(t)
	for _, g := range []struct{ mount, limit, killed string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"},
		{"/sys/fs/cgroup", "memory.max", "memory.events"},
	} {
		dir := filepath.Join(g.mount, fmt.Sprintf("pmcd-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, g.limit), fmt.Append(nil, limit), 0o644) == nil {
			return dir, filepath.Join(dir, g.killed)
		}
	}
	testutil.Missing(t, "no control group for memory can be made")
	return "", ""
}

// In a control group with 64 MiB, 200 clients with large replies, of which half do not read them,
// end no process, and another client is served.
func TestMemoryOfControlGroup(t *testing.T) {
	group, killed := memoryGroup(t, 64<<20)
	pmcd, err := peer.Plain("pmcd", "./cmd/pmcd")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sock := filepath.Join(dir, "sock")
	cmd := exec.Command("/bin/sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group, pmcd, "-f", "--embedded", "-U", "root", "-s", sock, "-l", filepath.Join(dir, "log"), "-i", "127.0.0.1", "-p", "0")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("pmcd: %v", err)
		}
		text, err := os.ReadFile(killed)
		if err != nil || !strings.Contains(string(text), "oom_kill 0\n") {
			t.Errorf("%s: %s, %v", killed, text, err)
		}
	}()
	// A reply of 8,000 times three values, some 500 KiB.
	load := &pdu.Fetch{}
	for range 8000 {
		load.PMIDs = append(load.PMIDs, pdu.NewPMID(60, 2, 0)) // kernel.all.load
	}
	connect := func() (c *pdutest.Client) {
		t.Helper()
		if !peer.Until(peer.Hangs, func() bool {
			c, err = pmcdtest.Greeted(sock, testutil.Hangs)
			return err == nil
		}) {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(testutil.Hangs))
		if err := c.Send(pdutest.Creds(0)); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(new(pdu.Profile)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	other := connect()
	defer other.Close()
	var all sync.WaitGroup
	defer all.Wait()
	for i := range 200 {
		c := connect()
		defer c.Close()
		all.Go(func() {
			for range 10 {
				if c.Send(load) != nil { // disconnected for what others do not read
					return
				}
			}
			for i%2 == 0 {
				if _, err := c.Receive(); err != nil {
					return
				}
			}
		})
	}
	for range 10 {
		if reply, err := other.Do(&pdu.Fetch{PMIDs: load.PMIDs[:1]}); err != nil {
			t.Fatalf("the other client got %+v, %v", reply, err)
		}
	}
}
