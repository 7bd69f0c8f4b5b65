package testutil

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Running reports whether a process runs. A process that has ended and was not reaped
// does not run.
func Running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Children returns the child processes of a process that have not ended. The kernel may
// lack /proc/PID/task/TID/children.
func Children(parent int) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range list {
		stat, _ := os.ReadFile(name)
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if len(fields) > 1 && fields[0] != "Z" && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
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

// Run runs a command, which must succeed.
func Run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}

// InProcess runs a test in a process of its own with these attributes, and reports whether
// this is that process. If it is not, the test has to return. A process with other rights
// than this one may be Missing.
func InProcess(t testing.TB, attr syscall.SysProcAttr) bool {
	t.Helper()
	const inside = "PMCD_TEST_PROCESS"
	if os.Getenv(inside) == t.Name() {
		return true
	}
	// Other users may not have access to the directory of the program.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"="+t.Name(), "GORACE=atexit_sleep_ms=0")
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
	switch out, err := cmd.CombinedOutput(); {
	case Forbidden(err):
		Missing(t, err)
	case err == nil && bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	case err != nil || !bytes.Contains(out, []byte("--- PASS")):
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// Forbidden reports whether err, of the start of a process, says that this process may not give it
// another user or name spaces of its own, or that the user does not exist in this name space.
func Forbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSPC)
}

// InOwnNetwork is InProcess with a network name space, in which the loopback interface is
// up.
func InOwnNetwork(t testing.TB) bool {
	t.Helper()
	ip := NeedProgram(t, "ip")
	if !InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}) {
		return false
	}
	Run(t, ip, "link", "set", "lo", "up")
	return true
}

// Unprivileged is InProcess with a user that has no rights, if this one is root's.
func Unprivileged(t testing.TB) bool {
	t.Helper()
	var attr syscall.SysProcAttr
	if os.Geteuid() == 0 {
		const nobody = 65534
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return InProcess(t, attr)
}
