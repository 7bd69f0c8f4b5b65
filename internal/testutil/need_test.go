package testutil

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// What is missing skips a test, and fails it if PMCD_REQUIRE_PEERS=1.
func TestMissing(t *testing.T) {
	const inside = "TESTUTIL_MISSING"
	if os.Getenv(inside) != "" {
		NeedProgram(t, "no-such-program")
		t.Error("Missing returned")
		return
	}
	for required, want := range map[string]string{"": "--- SKIP: TestMissing", "1": "--- FAIL: TestMissing"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1", "PMCD_REQUIRE_PEERS="+required)
		out, _ := cmd.CombinedOutput()
		if text := string(out); !strings.Contains(text, want) || !strings.Contains(text, "no-such-program") || strings.Contains(text, "returned") {
			t.Errorf("PMCD_REQUIRE_PEERS=%s: got\n%s\nwant %s", required, out, want)
		}
	}
}

// What fails in the other process fails the test, and what is skipped there is skipped.
func TestInProcess(t *testing.T) {
	const inside = "TESTUTIL_IN_PROCESS"
	if what := os.Getenv(inside); what != "" {
		if !InProcess(t, syscall.SysProcAttr{}) {
			return
		}
		switch what {
		case "FAIL":
			t.Error("it fails")
		case "SKIP":
			t.Skip("it is skipped")
		}
		return
	}
	for _, want := range []string{"PASS", "FAIL", "SKIP"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInProcess$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"="+want)
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), "\n--- "+want+": TestInProcess") {
			t.Errorf("got\n%s\nwant %s", out, want)
		}
	}
}

// Unprivileged has no rights that this process has.
func TestUnprivileged(t *testing.T) {
	path := t.TempDir() + "/file"
	if os.Geteuid() == 0 {
		if err := os.WriteFile(path, nil, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(path); err != nil {
			t.Error(err)
		}
	}
	if !Unprivileged(t) {
		return
	}
	if err := os.WriteFile(path, nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); !os.IsPermission(err) {
		t.Errorf("reading a file without permission: %v", err)
	}
}
