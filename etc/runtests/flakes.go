package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// busyArg, as the first argument, makes this program one that computes until it is killed.
const busyArg = "busy"

// flakes runs groups of steps again and again for a time, beside two processes that compute and
// with 1, 2 and 4 threads in turn. A test that fails once is one that depends on luck.
func flakes(groups [][]step, s *summary, most time.Duration) error {
	for range 2 {
		busy := exec.Command("/proc/self/exe", busyArg)
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := busy.Start(); err != nil {
			return err
		}
		defer busy.Wait()
		defer busy.Process.Kill()
	}
	os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" -count=1"))
	threads := []string{"1", "2", "4"}
	for i, end := 0, time.Now().Add(most); time.Now().Before(end); i++ {
		os.Setenv("GOMAXPROCS", threads[i%len(threads)])
		runAll(groups, s)
	}
	return nil
}
