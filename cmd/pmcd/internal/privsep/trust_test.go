package privsep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// PMCD_TRUST_AGENTS counts in a file that is root's, and nowhere else.
func TestTrustAgents(t *testing.T) {
	testutil.NeedRoot(t)
	dir := testutil.SharedDir(t) // whatever the umask is
	path := filepath.Join(dir, "pmcd")
	for _, c := range []struct {
		text    string
		mode    os.FileMode
		env     string
		want    bool
		problem string
	}{
		{"PMCD_TRUST_AGENTS=1\n", 0o644, "", true, ""},
		{"PMCD_LOCAL=1\nexport PMCD_TRUST_AGENTS=\"1\" # as C pmcd\n", 0o644, "1", true, ""},
		{"PMCD_TRUST_AGENTS=1\nPMCD_TRUST_AGENTS=0\n", 0o644, "", false, ""},
		{"#PMCD_TRUST_AGENTS=1\n", 0o644, "", false, ""},
		{"PMCD_TRUST_AGENTS=yes\n", 0o644, "", false, ""},
		{"PMCD_TRUST_AGENTS=1\n", 0o664, "", false, "in " + path + " is ignored: " + path + " is writable by group root"},
		{"", 0o644, "1", false, "in the environment is ignored: set it in " + path},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		env := func(name string) string {
			return map[string]string{"PMCD_TRUST_AGENTS": c.env, "PCP_SYSCONFIG_DIR": dir}[name]
		}
		got, err := trustAgents(trustFiles(env), env)
		if got != c.want || c.problem == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%q, mode %v, environment %q: %v, %v", c.text, c.mode, c.env, got, err)
		}
	}
}
