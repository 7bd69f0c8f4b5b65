// Package testutil has helpers for the tests of all packages of this module. It is not
// internal because packages below cmd, daemon and agents use it. It is not meant for other
// modules.
package testutil

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Hangs is how long something may take before a test says that it hangs: much longer than
// it takes on a busy machine.
const Hangs = 2 * time.Minute

// Until calls cond until it returns true, at first almost without pauses and later every
// millisecond. It reports whether that was so before the timeout.
func Until(timeout time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(timeout)
	for pause := time.Duration(0); !cond(); pause = min(2*pause+time.Microsecond, time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// Eventually calls cond until it returns true, as Until does. If that takes longer than
// Hangs, the test fails. The text what says what cond reports, such as "the agent
// listens".
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	if !Until(Hangs, cond) {
		t.Fatalf("not within %v: %s", Hangs, what)
	}
}

// CheckGoroutines fails the test if at its end there are more goroutines than now. It
// checks after the functions that are given to t.Cleanup later.
func CheckGoroutines(t testing.TB) {
	t.Helper()
	checkCounts(t, false)
}

// CheckLeaks is CheckGoroutines for goroutines and open descriptors.
func CheckLeaks(t testing.TB) {
	t.Helper()
	if r, w, err := os.Pipe(); err == nil { // the first use of Go's poller opens two descriptors for good
		r.Close()
		w.Close()
	}
	checkCounts(t, true)
}

func checkCounts(t testing.TB, withFDs bool) {
	count := func() (goroutines, fds int) {
		if withFDs {
			fds = CountFDs()
		}
		return runtime.NumGoroutine(), fds
	}
	goroutines, fds := count()
	t.Cleanup(func() {
		t.Helper()
		var g, f int
		if !Until(Hangs, func() bool { g, f = count(); return g <= goroutines && f <= fds }) {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines before, %d after; %d descriptors before, %d after\n%s", goroutines, g, fds, f, buf[:runtime.Stack(buf, true)])
		}
	})
}

// CountFDs returns the number of open descriptors.
func CountFDs() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// LiveHeap returns the number of bytes on the heap that are in use, without those that only
// a sync.Pool holds.
func LiveHeap() int {
	for range 3 { // the second one empties pools
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
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

// WriteFiles writes files, by their names, below a new directory and returns the directory.
func WriteFiles(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// SharedDir makes a directory that other users can enter, whose name is short enough for the
// paths of sockets: in /tmp if others cannot enter $TMPDIR.
func SharedDir(t testing.TB) string {
	t.Helper()
	top, err := filepath.Abs(os.TempDir())
	for dir := top; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if fi, err := os.Stat(dir); err != nil || fi.Mode()&1 == 0 {
			top = "/tmp"
		}
	}
	dir, err := os.MkdirTemp(top, "t")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
