package fuzztest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// faultText matches what a Go program writes about a fault.
var faultText = regexp.MustCompile(`DATA RACE|panic: |fatal error: |SIGSEGV: segm`)

// complaint returns what the processes of pmcd have written about a fault, "" if there
// is nothing.
func (e *episode) complaint() string {
	for _, name := range []string{"out", "log/pmcd.log"} {
		b, _ := os.ReadFile(e.At(name))
		if at := faultText.FindIndex(b); at != nil {
			begin := max(0, bytes.LastIndexByte(b[:at[0]], '\n'))
			return fmt.Sprintf("in %s:%.6000s\n", name, b[begin:])
		}
	}
	return ""
}

// report fails the test if the episode has failed. It prints the seed, the last actions
// and the end of pmcd's log, and keeps all files.
func (e *episode) report() {
	t := e.T
	if !e.failed() {
		return
	}
	if e.cmd == nil {
		t.Fatal(e.failure)
	}
	t.Helper()
	keep := filepath.Join(os.TempDir(), fmt.Sprintf("fuzz-daemon-%d", e.seed))
	os.MkdirAll(keep, 0o755)
	var logs string
	for _, name := range []string{"out", "log/pmcd.log"} {
		b, _ := os.ReadFile(e.At(name))
		os.WriteFile(filepath.Join(keep, filepath.Base(name)), b, 0o644)
		logs += fmt.Sprintf("--- the end of %s:\n%s\n", name, b[max(0, len(b)-8000):])
	}
	// A client may have noticed the end of pmcd before this program.
	peer.Until(2*time.Second, func() bool { return pmcdtest.IsClosed(e.exited) })
	complaint, state := e.complaint(), "pmcd was running"
	select {
	case <-e.exited:
		state = fmt.Sprintf("pmcd has ended with %v", e.cmd.ProcessState)
	default:
		// The file log has its goroutines, too: it may hang.
		e.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-e.exited:
		case <-time.After(testutil.Hangs):
		}
	}
	if b, err := os.ReadFile(e.At("log/pmcd.log")); err == nil {
		os.WriteFile(filepath.Join(keep, "pmcd.log"), b, 0o644)
	}
	os.WriteFile(filepath.Join(keep, "actions"), []byte(e.journal.String()), 0o644)
	t.Errorf("seed %d: %s (%s)\n%sTo repeat it: make fuzz-daemon SEED=%[1]d TIME=1m\nAll files: %[5]s\n%[6]s%[7]s",
		e.seed, e.failure, state, complaint, keep, &e.journal, logs)
}

// endTime is how long pmcd may take to end.
const endTime = 10 * time.Second

// terminate ends pmcd as a service manager does, and checks how it ends.
func (e *episode) terminate() {
	if e.failed() {
		return
	}
	defer e.cancel() // clients that are left
	below := peer.Descendants(e.cmd.Process.Pid)
	e.ending.Store(true)
	e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.exited:
	case <-time.After(endTime):
		e.fail("pmcd does not end within %v of SIGTERM", endTime)
		return
	}
	if st := e.cmd.ProcessState; !st.Success() {
		e.fail("pmcd has ended with %v after SIGTERM", st)
	}
	if e.complaint() != "" {
		e.fail("a process of pmcd has reported a fault")
	}
	if !peer.Until(peer.Hangs, func() bool {
		for _, p := range below {
			if p.Alive() {
				return false
			}
		}
		return true
	}) {
		e.fail("processes are left: %v", below)
	}
	if e.Exists("run/sock") {
		e.fail("the Unix socket is left")
	}
}
