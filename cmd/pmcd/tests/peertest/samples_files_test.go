package peertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

var define = regexp.MustCompile(`(?m)^#define (\w+) (\d+)$`)

// TestSamplesFiles has PCP's programs read the files that ./Install of each
// agent needs, as pmdaproc.sh does.
func TestSamplesFiles(t *testing.T) {
	peer.Require(t)
	root := peer.Must(peer.ModuleRoot())(t)
	names := func(t *testing.T, dir string) string {
		t.Helper()
		cmd := exec.Command("/usr/bin/pminfo", "-n", "root", "-m")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PCP_DERIVED_CONFIG=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pminfo in %s: %v\n%s", dir, err, out)
		}
		return string(out)
	}
	for _, a := range samples {
		t.Run(a.name, func(t *testing.T) {
			src := filepath.Join(root, "agents", "builtin", a.name)
			if got, want := names(t, src), names(t, filepath.Join(peer.PMDAs, a.name)); got != want {
				t.Errorf("names:\n%swant:\n%s", got, want)
			}

			// pmdaproc.sh takes the first number that is defined.
			m := define.FindSubmatch(peer.Must(os.ReadFile(filepath.Join(src, "domain.h")))(t))
			if m == nil || string(m[1]) != strings.ToUpper(a.name) || string(m[2]) != strconv.Itoa(a.domain) {
				t.Fatalf("domain.h defines %q", m)
			}
			help := string(peer.Must(os.ReadFile(filepath.Join(src, "help")))(t))
			help = strings.ReplaceAll(help, "@ "+string(m[1])+".", "@ "+string(m[2])+".")
			cmd := exec.Command("/usr/lib/pcp/bin/newhelp", "-V", "-n", "root", "-o", filepath.Join(t.TempDir(), "help"))
			cmd.Dir, cmd.Stdin = src, strings.NewReader(help)
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Contains(strings.ToLower(string(out)), "warning") {
				t.Errorf("newhelp: %v\n%s", err, out)
			}

			for _, script := range []string{"Install", "Remove"} {
				path := filepath.Join(src, script)
				if st := peer.Must(os.Stat(path))(t); st.Mode()&0o111 == 0 {
					t.Errorf("%s cannot be executed", script)
				}
				if out, err := exec.Command("/bin/sh", "-n", path).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", script, err, out)
				}
			}
		})
	}
}
