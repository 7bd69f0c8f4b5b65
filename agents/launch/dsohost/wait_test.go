package dsohost_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/launch/dsohost"
	"github.com/gopcp/pmcd/agents/testutil"
)

// A host loads the DSO at once, and calls the entry function only when Init is called.
func TestPeerWaits(t *testing.T) {
	path := oddDSO(t)
	started := func() host {
		h := start(t, dsohost.DSO{Name: "odd", Domain: 250, Entry: "noisy_init", Path: path})
		testutil.Eventually(t, "the host waits for pmcd", func() bool {
			return strings.Contains(h.text(), "odd: loaded\n") && asleep(t, h.p.PID())
		})
		if text := h.text(); text != "odd: loaded\n" {
			t.Errorf("while the host waits, it has written %q", text)
		}
		return h
	}

	h := started()
	h.dial(t)
	if text := h.text(); !strings.HasPrefix(text, "odd: loaded\nodd: stdout in init\n") {
		t.Errorf("after Init, the host has written %q", text)
	}

	h = started()
	h.p.Pipes.Close()
	<-h.p.Done()
	if ws, text := h.p.Status(), h.text(); ws.ExitStatus() != 0 || text != "odd: loaded\n" {
		t.Errorf("without Init: ended with %v, and has written %q", ws, text)
	}

	h = started()
	if err := syscall.Kill(h.p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantInitError(t, h, "killed", "the DSO host ended while the DSO was loaded or initialised: EOF", -1)
}

// asleep reports whether a process waits in a system call that a signal can end.
func asleep(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " S ")
}
