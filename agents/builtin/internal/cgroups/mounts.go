package cgroups

import (
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// A Mount is a hierarchy that is mounted.
type Mount struct {
	Path    string
	Version int
	Options []string // of version 1: its controllers are among them
}

// ParseMounts returns the hierarchies that a text like /proc/mounts names:
//
//	cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0
//	net_cls /sys/fs/cgroup/net_cls cgroup rw,relatime,net_cls 0 0
//
// If several file systems are mounted at one path, only the last is visible there. root is
// the directory that has the host's /sys, "" for /. In a container the text names mounts of
// the container, those of the host among them with the path below root.
func ParseMounts(text []byte, root string) (mounts []Mount) {
	for line := range sysfile.Mounts(text) {
		c := Mount{Version: 2}
		switch string(line.Type) {
		case "cgroup":
			c.Version, c.Options = 1, strings.FieldsFunc(string(line.Options), func(r rune) bool { return r == ',' })
		case "cgroup2":
		default:
			c.Version = 0
			if len(mounts) == 0 {
				continue
			}
		}
		c.Path = sysfile.Unescape(line.Path)
		if below, ok := strings.CutPrefix(c.Path, root+"/"); ok {
			c.Path = "/" + below
		}
		mounts = slices.DeleteFunc(mounts, func(m Mount) bool { return m.Path == c.Path })
		if c.Version > 0 && strings.HasPrefix(c.Path, "/") {
			mounts = append(mounts, c)
		}
	}
	return mounts
}

// Has reports whether a hierarchy of version 1 has a controller.
func (m *Mount) Has(controller string) bool { return slices.Contains(m.Options, controller) }

// Of returns the hierarchies whose groups have the files of a controller. The kernel
// attaches each controller to one hierarchy, so it is of version 2 unless one of version 1
// is mounted with it. The controller "" stands for the files that all groups of version 2
// have, such as cpu.stat and cpu.pressure.
func Of(controller string, mounts []Mount) (of []Mount) {
	for _, version := range []int{1, 2} {
		for _, m := range mounts {
			if m.Version == version && (version == 2 || m.Has(controller)) {
				of = append(of, m)
			}
		}
		if of != nil {
			break
		}
	}
	return of
}

// IsMountPoint reports whether a hierarchy is mounted at a path. A hierarchy of version 1
// can be mounted below one of version 2, and then has no groups of that one.
func IsMountPoint[T ~string | ~[]byte](path T, mounts []Mount) bool {
	return slices.ContainsFunc(mounts, func(m Mount) bool { return m.Path == string(path) })
}
