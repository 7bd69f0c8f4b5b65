package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// All arguments are passed on, and the exporter takes the place of pmcdctl.
func TestPrometheusCommand(t *testing.T) {
	bin := t.TempDir()
	ctl := filepath.Join(bin, "pmcdctl")
	testutil.Run(t, "go", "build", "-o", ctl, ".")
	run := func(args ...string) (code int, out string) {
		t.Helper()
		cmd := exec.Command(ctl, args...)
		cmd.Env = []string{"PATH="}
		var b bytes.Buffer
		cmd.Stdout, cmd.Stderr = &b, &b
		err := cmd.Run()
		if _, ok := err.(*exec.ExitError); err != nil && !ok {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), b.String()
	}
	if code, out := run("prometheus"); code != exitNone || !strings.HasPrefix(out, "pmcdctl: pmcd-prometheus is not installed") {
		t.Errorf("without the exporter: %d %s", code, out)
	}
	const script = "#!/bin/sh\necho \"pid $*\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(bin, exporterName), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"", "-h web1 --listen :1 a.b", "--help", "--openmetrics --no-such -x"} {
		code, out := run(append([]string{"prometheus"}, strings.Fields(args)...)...)
		if _, got, _ := strings.Cut(strings.TrimSpace(out), " "); code != 7 || got != args {
			t.Errorf("%q: %d %s", args, code, out)
		}
	}
}
