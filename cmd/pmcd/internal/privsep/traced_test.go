package privsep

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// A process notices that it is traced from its start.
func TestTraced(t *testing.T) {
	const role = "PRIVSEP_TRACED"
	if os.Getenv(role) != "" {
		if !Traced() {
			t.Error("the process is not traced")
		}
		return
	}
	if Traced() {
		t.Fatal("this process is traced already")
	}
	// Only the thread that starts a process can trace it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestTraced$", "-test.v")
	cmd.Env = append(os.Environ(), role+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	for sig := 0; ; { // the first stop is that of execve
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &ws, 0, nil); err != nil {
			t.Fatal(err)
		}
		if ws.Exited() || ws.Signaled() {
			if ws.ExitStatus() != 0 {
				t.Errorf("the process has ended with %#x", uint32(ws))
			}
			return
		}
		if sig = int(ws.StopSignal()); sig == int(syscall.SIGTRAP) {
			sig = 0
		}
		if err := syscall.PtraceCont(cmd.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
}
