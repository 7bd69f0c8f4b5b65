// Package memlimit finds out how much memory the control group of this process may use.
package memlimit

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A hierarchy is a mount of control groups with files that have a limit.
type hierarchy struct {
	dir   string
	files []string
}

// Where systemd and container engines mount them: version 2, version 2 beside version 1, and
// version 1.
var (
	unified = []hierarchy{{"sys/fs/cgroup", []string{"memory.max", "memory.high"}}, {"sys/fs/cgroup/unified", []string{"memory.max", "memory.high"}}}
	memory  = []hierarchy{{"sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}}}
)

// Of returns the least limit, in bytes, of the control group of this process and of the groups
// above it, or 0 if there is none. Root is the directory that /proc and /sys are in.
func Of(root string) int64 {
	fs, err := procfs.NewFS(filepath.Join(root, "proc"))
	if err != nil {
		return 0
	}
	self, err := fs.Self()
	if err != nil {
		return 0
	}
	groups, err := self.Cgroups()
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for _, g := range groups {
		var mounts []hierarchy
		switch {
		case g.HierarchyID == 0:
			mounts = unified
		case slices.Contains(g.Controllers, "memory"):
			mounts = memory
		}
		for _, m := range mounts {
			// In a container the path may be that of the host. The directory of the mount is
			// read in any case.
			for path := filepath.Join("/", g.Path); ; path = filepath.Dir(path) {
				for _, file := range m.files {
					least = min(least, limitIn(filepath.Join(root, m.dir, path, file)))
				}
				if path == "/" {
					break
				}
			}
		}
	}
	if least >= noLimit {
		return 0
	}
	return least
}

// noLimit is less than what version 1 has for no limit: the largest number of pages, in bytes.
const noLimit = 1 << 60

// limitIn returns the limit in a file. If there is none, as "max" says, it is math.MaxInt64.
func limitIn(file string) int64 {
	text, err := regular.ReadFile(file, 64)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil || n < 0 {
		return math.MaxInt64
	}
	return n
}
