package installtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// part returns the part of the script that matches.
func part(t *testing.T, pattern string) string {
	t.Helper()
	used(t, "etc/swap-pmcd.sh")
	text := regexp.MustCompile(pattern).FindString(read(t, repo+"/etc/swap-pmcd.sh"))
	if text == "" {
		t.Fatalf("the script has no %s", pattern)
	}
	return text + "\n"
}

// A process that any user calls pmlogger does not end a trial: it is not watched.
func TestTrialLoggers(t *testing.T) {
	testutil.NeedRoot(t) // to start a process of another user
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	user, err := user.LookupId("65534")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	root, theirs := os.Getpid(), other.Process.Pid
	write(t, filepath.Join(dir, "ss"), fmt.Sprintf(`#!/bin/sh
cat <<'END'
u_str ESTAB 0 0 /run/pcp/pmcd.socket 11 * 12 users:(("pmcd",pid=7,fd=5))
u_str ESTAB 0 0 * 12 * 11 users:(("pmlogger",pid=%d,fd=3))
u_str ESTAB 0 0 /run/pcp/pmcd.socket 21 * 22 users:(("pmcd",pid=7,fd=6))
u_str ESTAB 0 0 * 22 * 21 users:(("pmlogger",pid=%d,fd=3))
END
`, root, theirs))
	for pcp, want := range map[string]string{
		user.Username:  fmt.Sprintf("%d\n%d\n", min(root, theirs), max(root, theirs)),
		"root":         fmt.Sprintf("%d\n", root),
		"no-such-user": fmt.Sprintf("%d\n", root),
	} {
		conf := filepath.Join(dir, "pcp.conf")
		write(t, conf, "PCP_USER="+pcp+"\n")
		cmd := exec.Command("sh", "-euc", part(t, `(?ms)^var\(\) .*?$`)+part(t, `(?ms)^loggers\(\) .*?^}$`)+"loggers 7 | sort -n")
		cmd.Env = []string{"conf=" + conf, "PATH=" + dir + ":" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("PCP_USER=%s: got %s, %v, want %s", pcp, out, err, want)
		}
	}
}

// Why a trial has ended has values of agents, which are printed as they are.
func TestTrialReport(t *testing.T) {
	state := t.TempDir()
	write(t, filepath.Join(state, "systemctl"), "#!/bin/sh\n")
	write(t, filepath.Join(state, "bound"), "")
	write(t, filepath.Join(state, "why"), `a\033[2Jb\c`+"\n")
	cmd := exec.Command("sh", "-euc", part(t, `(?ms)^\tcat >\$state/back <<-END$.*?^\tEND$`)+"sh $state/back")
	cmd.Env = []string{"state=" + state, "dropin=" + state + "/none", "unit=none.service", "dir=" + state, "PATH=" + state + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	want := `swap-pmcd: the trial is over, and PCP's pmcd comes back: a\033[2Jb\c` + "\n"
	if err != nil || string(out) != want || read(t, filepath.Join(state, "report")) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
