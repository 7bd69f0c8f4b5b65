package checkagents

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// As root, check-agents does not run as root what other users can change.
func TestCheckAgentsUntrusted(t *testing.T) {
	testutil.NeedRoot(t)
	dir := testutil.SharedDir(t)
	t.Chdir(dir)
	const script = "#!/bin/sh\necho I am $(id -un) >&2\nexit 1\n"
	for name, text := range map[string]string{
		"good": script, "script": script,
		"conf": "good 240 pipe binary " + dir + "/good\nbad 241 pipe binary nice -n 1 " + dir + "/script\n",
		"pmns": "root { a b }\na { x 240:0:0 }\nb { x 241:0:0 }\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod("script", 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PCP_USER", "daemon")
	t.Setenv("PCP_CONF", "/dev/null")
	t.Setenv("PCP_SYSCONFIG_DIR", dir)
	t.Setenv("PMCD_TRUST_AGENTS", "1")
	code, out, stderr := runHere("-q", "60", "-c", "conf", "-n", "pmns")
	if code != exitProblems {
		t.Errorf("code %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"\nbad runs as daemon: " + dir + "/script is writable by all users\n    to run it as root: chmod go-w " + dir + "/script; or set PMCD_TRUST_AGENTS=1 in " + dir + "/pmcd\n",
		"the last output of good:\n    I am root\n", "the last output of bad:\n    I am daemon\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	const problem = "PMCD_TRUST_AGENTS=1 in the environment is ignored: set it in "
	if !strings.Contains(stderr, problem+dir+"/pmcd\n") {
		t.Errorf("%q is not in\n%s", problem, stderr)
	}
}
