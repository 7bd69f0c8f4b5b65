package memlimit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOf(t *testing.T) {
	const v1 = "9:name=systemd:/\n4:hugetlb,memory:/a/b\n0::/c\n"
	for name, tt := range map[string]struct {
		cgroup string
		files  map[string]string
		want   int64
	}{
		"none":               {"0::/a\n", map[string]string{"a/memory.max": "max\n"}, 0},
		"own":                {"0::/a/b\n", map[string]string{"a/b/memory.max": "1000000\n", "a/memory.max": "max\n"}, 1e6},
		"of a parent":        {"0::/a/b\n", map[string]string{"a/b/memory.max": "1000000\n", "a/memory.max": "999\n"}, 999},
		"high":               {"0::/a\n", map[string]string{"a/memory.max": "1000\n", "a/memory.high": "800\n"}, 800},
		"container":          {"0::/\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"path of the host":   {"0::/kubepods/pod1/x\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"path above":         {"0::/../x\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"version 1":          {v1, map[string]string{"memory/a/b/memory.limit_in_bytes": "5000\n"}, 5000},
		"version 1, none":    {v1, map[string]string{"memory/a/b/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"both":               {v1, map[string]string{"unified/c/memory.max": "4000", "memory/memory.limit_in_bytes": "5000\n"}, 4000},
		"not a number":       {"0::/a\n", map[string]string{"a/memory.max": "x\n"}, 0},
		"negative":           {"0::/a\n", map[string]string{"a/memory.max": "-1\n"}, 0},
		"of another process": {"0::/a\n", map[string]string{"b/memory.max": "1000\n"}, 0},
		"not mounted":        {"0::/a\n", nil, 0},
		"no control groups":  {"", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				path := filepath.Join(root, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			write("proc/1/cgroup", tt.cgroup)
			if err := os.Symlink("1", filepath.Join(root, "proc/self")); err != nil {
				t.Fatal(err)
			}
			for file, text := range tt.files {
				write("sys/fs/cgroup/"+file, text)
			}
			if got := Of(root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
	if got := Of(t.TempDir()); got != 0 {
		t.Errorf("without /proc: %d", got)
	}
}
