package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
)

// What is named and missing is an error everywhere, also where PCP is not
// installed.
func TestNoFallback(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf, names, none := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns"), filepath.Join(dir, "none")
	for name, text := range map[string]string{conf: "pmcd 2 dso pmcd_init /none\n", names: "root { pmcd 2:0:0 }\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const noConf = "neither -c nor pcp.conf names one"
	tests := []struct {
		name, args, env, want string
	}{
		{"-c", "-n " + names + " -c " + none, "PCP_CONF=/dev/null", none},
		{"-n", "-c " + conf + " -n " + none, "PCP_CONF=/dev/null", none},
		{"-N", "-c " + conf + " -N " + none, "PCP_CONF=/dev/null", none},
		{"PMNS_DEFAULT", "-c " + conf, "PMNS_DEFAULT=" + none, none},
		{"PCP_CONF", "", "PCP_CONF=" + none, noConf + ": PCP_CONF: open " + none + ": no such file or directory; give -c, or --embedded "},
		{"PCP_DIR", "", "PCP_DIR=" + none, noConf + ": PCP_DIR: open " + none + "/etc/pcp.conf: no such file or directory; "},
		{"an empty pcp.conf", "", "PCP_CONF=" + names, noConf + ": it does not set PCP_PMCDCONF_PATH; "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"-f", "-i", "127.0.0.1", "-p", "0", "-l", "-", "-s", filepath.Join(t.TempDir(), "s")}, strings.Fields(tt.args)...)
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Env = []string{"PMCD_TEST_RUN=1", "GORACE=atexit_sleep_ms=0", tt.env}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != cli.ExitError || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, want exit code %d and %q:\n%s", err, cli.ExitError, tt.want, out)
			}
		})
	}
}
