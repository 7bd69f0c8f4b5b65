// Package testutil is what the tests of daemon and its packages share.
package testutil

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Eventually waits for cond.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// CountLeaks fails t if there are more goroutines or descriptors after it
// than before.
func CountLeaks(t testing.TB) {
	if r, w, err := os.Pipe(); err == nil { // the first use of Go's poller opens two descriptors for good
		r.Close()
		w.Close()
	}
	goroutines, fds := runtime.NumGoroutine(), CountFDs()
	t.Cleanup(func() {
		for range 500 {
			if runtime.NumGoroutine() <= goroutines && CountFDs() <= fds {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after; %d descriptors before, %d after\n%s",
			goroutines, runtime.NumGoroutine(), fds, CountFDs(), buf[:runtime.Stack(buf, true)])
	})
}

// CountFDs returns the number of open descriptors.
func CountFDs() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// InOwnNetwork runs a test in a network name space of its own, and reports whether
// this is it. In it the loopback interface is up.
func InOwnNetwork(t testing.TB) bool {
	const inside = "PMCD_TEST_NETNS"
	if os.Getenv(inside) != "" {
		return true
	}
	require := t.Skipf
	if os.Getenv("PMCD_REQUIRE_PEERS") == "1" {
		require = t.Fatalf
	}
	if os.Getuid() != 0 {
		require("only root may make name spaces")
	}
	if out, err := exec.Command("unshare", "-n", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		require("no network name space: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-n", "sh", "-c", `ip link set lo up && exec "$@"`, "sh", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// Run runs a command, which must succeed.
func Run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}
