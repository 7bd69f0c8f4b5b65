package testutil

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Required reports whether a test must fail if this machine lacks what the test needs:
// PCP, another program, rights or a file of the kernel. PMCD_REQUIRE_PEERS=1 says so, which
// "make test" sets. Otherwise the test is skipped.
func Required() bool { return os.Getenv("PMCD_REQUIRE_PEERS") == "1" }

// Missing skips the test or, if Required, fails it. The arguments say what this machine
// lacks.
func Missing(t testing.TB, what ...any) {
	t.Helper()
	if Required() {
		t.Fatal(what...)
	}
	t.Skip(what...)
}

// NeedPeer returns the path of a file of PCP, which may be the name of a program in
// PATH. The file is Missing if it is not installed.
func NeedPeer(t testing.TB, name string) string {
	t.Helper()
	if !strings.Contains(name, "/") {
		return NeedProgram(t, name)
	}
	if _, err := os.Stat(name); err != nil {
		Missing(t, err)
	}
	return name
}

// NeedProgram returns the path of a program, which is Missing if it is not in PATH.
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, err)
	}
	return path
}

// NeedRoot is for a test that only root can run.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "needs root")
	}
}

// NeedCapability is for a test that needs one of Linux' capabilities, such as unix.CAP_SYS_PTRACE,
// which root has not in each container.
func NeedCapability(t testing.TB, number uint) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, hex, _ := strings.Cut(string(status), "CapEff:\t")
	hex, _, _ = strings.Cut(hex, "\n")
	if set, err := strconv.ParseUint(hex, 16, 64); err != nil || set>>number&1 == 0 {
		Missing(t, "needs capability ", number, " of capabilities(7)")
	}
}

// NeedModules is for a test that builds modules of its own, for which a directory vendor is not
// enough: the modules that this one requires must be in the cache of the go command.
func NeedModules(t testing.TB) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "github.com/gopcp/pmcd/...")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		Missing(t, "modules are not in the cache: ", err, " ", stderr.String())
	}
}

// NeedIPv6 is for a test that connects to ::1.
func NeedIPv6(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		Missing(t, err)
	}
	l.Close()
}
