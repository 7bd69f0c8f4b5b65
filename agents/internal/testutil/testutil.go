// Package testutil has helpers for the tests of package agents and the packages below
// it.
package testutil

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Eventually calls cond until it returns true, first without pauses and later every
// millisecond. If that takes more than 30 seconds, the test fails. The text what
// says what cond reports, such as "the agent listens".
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for pause := time.Duration(0); !cond(); pause = min(pause+time.Microsecond, time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(pause)
	}
}

// CheckGoroutines fails the test if at its end there are more goroutines than now. It
// checks after the functions that are given to t.Cleanup later.
func CheckGoroutines(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 500 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	})
}

// NeedPeer returns the path of a file of PCP, which may be the name of a program in
// PATH. If it is not installed, the test is skipped or, with PMCD_REQUIRE_PEERS=1,
// fails.
func NeedPeer(t testing.TB, name string) string {
	t.Helper()
	var err error
	if strings.Contains(name, "/") {
		_, err = os.Stat(name)
	} else {
		name, err = exec.LookPath(name)
	}
	if err != nil {
		MissingPeer(t, err)
	}
	return name
}

// MissingPeer skips the test because of err or, with PMCD_REQUIRE_PEERS=1, fails it.
func MissingPeer(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("PMCD_REQUIRE_PEERS") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// A Log is a log in memory that can be read while it is written.
type Log struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Running reports whether a process runs. A process that has ended and was not reaped
// does not run.
func Running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// WaitEnded waits until a process does not run. If that takes too long, the test fails
// and the process is killed.
func WaitEnded(t testing.TB, pid int) {
	t.Helper()
	defer func() {
		if t.Failed() && Running(pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}()
	Eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !Running(pid) })
}
