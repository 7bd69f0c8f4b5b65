package privsep

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Other processes of the same user cannot read the memory. This process can still use what it
// needs of /proc/self: its descriptors, and its program for child processes.
func TestProtectMemory(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	readable := func() bool { // by another process
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestReadParent$", "-test.v")
		cmd.Env = append(os.Environ(), "PRIVSEP_READ_PARENT=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err == nil
	}
	if !readable() {
		t.Fatal("the memory cannot be read from the start")
	}
	for range 2 {
		if err := ProtectMemory(); err != nil {
			t.Fatal(err)
		}
		if readable() {
			t.Error("the memory can be read")
		}
	}
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Error(err)
	}
	if _, err := os.Readlink("/proc/self/exe"); err != nil {
		t.Error(err)
	}
}

// TestReadParent fails if this process cannot read the memory of its parent. It is for
// TestProtectMemory.
func TestReadParent(t *testing.T) {
	if os.Getenv("PRIVSEP_READ_PARENT") == "" {
		return
	}
	// This part of the memory needs the same right as all of it, which a security module may
	// keep from processes that are not debuggers.
	if _, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/environ"); err != nil {
		t.Fatal(err)
	}
}
