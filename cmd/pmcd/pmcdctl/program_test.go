package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindProgram(t *testing.T) {
	for _, tt := range []struct {
		name        string
		files       map[string]os.FileMode // directories, with the mode of the program there
		self        string
		want, error string
	}{
		{"beside", map[string]os.FileMode{"usr/bin": 0o755, "usr/libexec/pcp": 0o755, "path": 0o755}, "usr/bin/pmcdctl", "usr/bin/pmcd-prometheus", ""},
		{"in libexec", map[string]os.FileMode{"usr/bin": 0, "usr/libexec/pcp": 0o755, "path": 0o755}, "usr/bin/pmcdctl", "usr/libexec/pcp/pmcd-prometheus", ""},
		{"as in the deb of pmcd-swap", map[string]os.FileMode{"usr/bin": 0, "usr/lib/pcp/bin": 0o755, "path": 0o755}, "usr/bin/pmcdctl", "usr/lib/pcp/bin/pmcd-prometheus", ""},
		{"a directory of that name", map[string]os.FileMode{"usr/bin": os.ModeDir, "path": 0o755}, "usr/bin/pmcdctl", "path/pmcd-prometheus", ""},
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
				switch mode {
				case os.ModeDir:
					if err := os.Mkdir(filepath.Join(dir, exporterName), 0o755); err != nil {
						t.Fatal(err)
					}
					continue
				case 0:
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
			got, err := findProgram(exporterName, func() (string, error) { return self, nil }, exec.LookPath)
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
