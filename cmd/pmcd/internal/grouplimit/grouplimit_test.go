package grouplimit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// host makes a directory with /proc and /sys of a process in a control group.
func host(t *testing.T, cgroup string, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("proc/1/cgroup", cgroup)
	if err := os.Symlink("1", filepath.Join(root, "proc/self")); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		write("sys/fs/cgroup/"+file, text)
	}
	return root
}

func TestMemory(t *testing.T) {
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
			if got := Memory(host(t, tt.cgroup, tt.files)); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
	if got := Memory(t.TempDir()); got != 0 {
		t.Errorf("without /proc: %d", got)
	}
}

func TestCPUs(t *testing.T) {
	const v1 = "9:name=systemd:/\n4:cpu,cpuacct:/a/b\n0::/c\n"
	for name, tt := range map[string]struct {
		cgroup string
		files  map[string]string
		want   int
	}{
		"none":               {"0::/a\n", map[string]string{"a/cpu.max": "max 100000\n"}, 0},
		"half a CPU":         {"0::/a\n", map[string]string{"a/cpu.max": "50000 100000\n"}, 1},
		"one":                {"0::/a\n", map[string]string{"a/cpu.max": "100000 100000\n"}, 1},
		"a little more":      {"0::/a\n", map[string]string{"a/cpu.max": "100001 100000\n"}, 2},
		"many":               {"0::/a\n", map[string]string{"a/cpu.max": "6400000 100000\n"}, 64},
		"of a parent":        {"0::/a/b/c\n", map[string]string{"a/b/c/cpu.max": "400000 100000\n", "a/b/cpu.max": "max 100000\n", "a/cpu.max": "250000 100000"}, 3},
		"container":          {"0::/\n", map[string]string{"cpu.max": "200000 100000\n"}, 2},
		"path of the host":   {"0::/kubepods/pod1/x\n", map[string]string{"cpu.max": "200000 100000\n"}, 2},
		"version 1":          {v1, map[string]string{"cpu/a/b/cpu.cfs_quota_us": "150000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 2},
		"version 1, none":    {v1, map[string]string{"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 0},
		"version 1, parent":  {v1, map[string]string{"cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n", "cpu/a/cpu.cfs_quota_us": "300000\n", "cpu/a/cpu.cfs_period_us": "100000\n"}, 3},
		"version 1, half":    {v1, map[string]string{"cpu/a/b/cpu.cfs_quota_us": "150000\n"}, 0},
		"both":               {v1, map[string]string{"unified/c/cpu.max": "100000 100000", "cpu/a/b/cpu.cfs_quota_us": "400000\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 1},
		"no period":          {"0::/a\n", map[string]string{"a/cpu.max": "100000\n"}, 0},
		"a period of 0":      {"0::/a\n", map[string]string{"a/cpu.max": "100000 0\n"}, 0},
		"a quota of 0":       {"0::/a\n", map[string]string{"a/cpu.max": "0 100000\n"}, 0},
		"large numbers":      {"0::/a\n", map[string]string{"a/cpu.max": "9223372036854775807 1\n"}, 0},
		"not numbers":        {"0::/a\n", map[string]string{"a/cpu.max": "a b\n"}, 0},
		"of another process": {"0::/a\n", map[string]string{"b/cpu.max": "100000 100000\n"}, 0},
		"not mounted":        {"0::/a\n", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := CPUs(host(t, tt.cgroup, tt.files)); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}
