package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
)

func TestFindExporter(t *testing.T) {
	for _, tt := range []struct {
		name        string
		files       map[string]os.FileMode // directories, with the mode of the program there
		self        string
		want, error string
	}{
		{"beside", map[string]os.FileMode{"usr/bin": 0o755, "usr/libexec/pcp": 0o755, "path": 0o755}, "usr/bin/pmcdctl", "usr/bin/pmcd-prometheus", ""},
		{"in libexec", map[string]os.FileMode{"usr/bin": 0, "usr/libexec/pcp": 0o755, "path": 0o755}, "usr/bin/pmcdctl", "usr/libexec/pcp/pmcd-prometheus", ""},
		{"in PATH", map[string]os.FileMode{"usr/bin": 0, "path": 0o755}, "usr/bin/pmcdctl", "path/pmcd-prometheus", ""},
		{"beside what a link is to", map[string]os.FileMode{"usr/bin": 0o755, "path": 0}, "path/pmcdctl", "usr/bin/pmcd-prometheus", ""},
		{"not executable", map[string]os.FileMode{"usr/bin": 0o644, "path": 0o755}, "usr/bin/pmcdctl", "", "usr/bin/pmcd-prometheus"},
		{"nowhere", map[string]os.FileMode{"usr/bin": 0, "path": 0}, "usr/bin/pmcdctl", "", "pmcd-prometheus is not installed: it is neither in ["},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for dir, mode := range tt.files {
				dir = filepath.Join(root, dir)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if mode == 0 {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, exporterName), nil, mode); err != nil {
					t.Fatal(err)
				}
			}
			program := filepath.Join(root, "usr/bin/pmcdctl")
			if err := os.WriteFile(program, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			self := filepath.Join(root, tt.self)
			if self != program {
				if err := os.Symlink(program, self); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", filepath.Join(root, "path"))
			got, err := findExporter(func() (string, error) { return self, nil }, exec.LookPath)
			if tt.error != "" {
				if err == nil || !strings.Contains(err.Error(), tt.error) {
					t.Errorf("%q, %v", got, err)
				}
			} else if err != nil || got != filepath.Join(root, tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

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
