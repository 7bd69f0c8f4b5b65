// Package grouplimit finds out how much memory and CPU time the control group of this process may
// use.
package grouplimit

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// visit calls f for the directories of the control group of this process and of the groups above
// it: those of version 2, and those of a controller of version 1. They are where systemd and
// container engines mount them. Root is the directory that /proc and /sys are in.
func visit(root, controller string, f func(dir string)) {
	fs, err := procfs.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		return
	}
	self, err := fs.Self()
	if err != nil {
		return
	}
	groups, err := self.Cgroups()
	if err != nil {
		return
	}
	for _, g := range groups {
		var mounts []string
		switch {
		case g.HierarchyID == 0:
			mounts = []string{".", "unified"} // alone, and beside version 1
		case slices.Contains(g.Controllers, controller):
			mounts = []string{controller}
		}
		for _, m := range mounts {
			// In a container the path may be that of the host. The directory of the mount is
			// read in any case.
			for path := filepath.Join("/", g.Path); ; path = filepath.Dir(path) {
				f(filepath.Join(root, "sys/fs/cgroup", m, path))
				if path == "/" {
					break
				}
			}
		}
	}
}

// Memory returns the least limit, in bytes, of the control group of this process and of the groups
// above it, or 0 if there is none.
func Memory(root string) int64 {
	least := int64(math.MaxInt64)
	visit(root, "memory", func(dir string) {
		for _, file := range []string{"memory.max", "memory.high", "memory.limit_in_bytes"} {
			if n := numbers(filepath.Join(dir, file)); len(n) == 1 {
				least = min(least, n[0])
			}
		}
	})
	if least >= noLimit {
		return 0
	}
	return least
}

// noLimit is less than what version 1 has for no limit: the largest number of pages, in bytes.
const noLimit = 1 << 60

// CPUs returns how many CPUs the least limit of CPU time is worth, rounded up, or 0 if there is none.
func CPUs(root string) int {
	least := int64(math.MaxInt64)
	visit(root, "cpu", func(dir string) {
		n := numbers(filepath.Join(dir, "cpu.max"))
		if n == nil {
			n = append(numbers(filepath.Join(dir, "cpu.cfs_quota_us")), numbers(filepath.Join(dir, "cpu.cfs_period_us"))...)
		}
		if len(n) == 2 && n[0] > 0 && n[1] > 0 { // quota and period
			least = min(least, (n[0]-1)/n[1]+1)
		}
	})
	if least > math.MaxInt32 {
		return 0
	}
	return int(least)
}

// numbers returns the numbers in a file; nil if there is another word, such as "max", or a negative
// number, which is no limit in version 1.
func numbers(file string) (list []int64) {
	text, err := regular.ReadFile(file, 64)
	if err != nil {
		return nil
	}
	for word := range bytes.FieldsSeq(text) {
		n, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil || n < 0 {
			return nil
		}
		list = append(list, n)
	}
	return list
}
