package linux

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// parse makes the file systems instances, but for those that another one hides: it is in a later
// line with the same path, as with kernels before 4.3:
//
//	rootfs / rootfs rw 0 0
//	/dev/mapper/rhel-root / xfs rw,relatime 0 0
//
// C differs: these are instances with the values of the other one.
func (f *filesystems) parse(b []byte) {
	f.devices.begin()
	f.tmpfs.begin()
	defer f.devices.end()
	defer f.tmpfs.end()
	waits := f.remoteMounts(b)
	hostPath := f.h.path
	if f.h.container != nil {
		hostPath = func(path string) string { return path }
	}
	last := make(map[string]sysfile.Mount) // by mount point
	for m := range sysfile.Mounts(b) {
		last[string(m.Path)] = m
	}
	for m := range sysfile.Mounts(b) {
		top := last[string(m.Path)]
		// Two with the same name are one instance, in the place of the first.
		same := string(m.Type) == string(top.Type) && (string(m.Type) == "tmpfs" || string(m.Device) == string(top.Device))
		if !same || len(m.Options) == 0 || isIgnoredType(string(m.Type)) {
			continue
		}
		instances, name := f.devices, string(m.Device)
		if string(m.Type) == "tmpfs" {
			instances, name = f.tmpfs, string(m.Path)
		} else if !strings.HasPrefix(name, "/dev") && string(m.Path) != "/" {
			continue
		}
		if !strings.HasPrefix(name, "/dev/mapper") && !strings.HasPrefix(name, "/dev/md") {
			name = f.resolve(name)
		}
		if d := instances.add([]byte(name)); d != nil {
			*d = filesystem{
				device:   string(m.Device),
				typ:      string(m.Type),
				mount:    string(m.Path),
				path:     hostPath(path.Clean("/" + unescape(m.Path))),
				f:        f,
				readonly: slices.Contains(strings.Split(string(m.Options), ","), "ro"),
			}
			d.inMemory = f.reached == nil && statfsInMemory(d.typ) && !slices.ContainsFunc(waits, func(dir string) bool { return isBelow(d.path, dir) })
		}
	}
}

// remoteMounts returns the mount points at which a look-up of a name may wait, because the
// file system asks a server or a process whether the name is still there.
func (f *filesystems) remoteMounts(b []byte) (dirs []string) {
	for m := range sysfile.Mounts(b) {
		switch string(m.Type) {
		case "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "devtmpfs":
		default:
			dirs = append(dirs, path.Clean("/"+unescape(m.Path)))
		}
	}
	return dirs
}

// isBelow reports whether p is dir or a name below it. Both are clean and absolute.
func isBelow(p, dir string) bool {
	rest, ok := strings.CutPrefix(p, dir)
	return ok && (rest == "" || rest[0] == '/' || dir == "/")
}

// statfsInMemory reports whether file systems of a type have all that statfs(2) returns in
// memory. Others wait for a server, or for work of their own, as xfs in Linux 5.14.
func statfsInMemory(typ string) bool {
	switch typ {
	case "ext2", "ext3", "ext4", "tmpfs":
		return true
	}
	return false
}

// isIgnoredType reports whether file systems of a type are not instances.
func isIgnoredType(typ string) bool {
	switch typ {
	case "proc", "nfs", "devfs", "devpts", "devtmpfs", "squashfs", "selinuxfs", "securityfs", "configfs", "cgroup", "sysfs":
		return true
	}
	return strings.HasPrefix(typ, "auto")
}

// maxLinks is the largest number of links in the path of a device
// (path_resolution(7)).
const maxLinks = 40

// resolve returns the target of a symbolic link in /dev, such as
// /dev/disk/by-label/data of udev. It does not resolve links elsewhere: a user who
// mounts a FUSE file system chooses the name of the device, and could find out
// where links lead that only root may read.
func (f *filesystems) resolve(name string) string {
	if !strings.HasPrefix(path.Clean(name), "/dev/") {
		return name
	}
	to := name
	for range maxLinks {
		text, err := f.h.viewReader.Path(to).Link()
		if err != nil {
			return to
		}
		link := string(text)
		if !filepath.IsAbs(link) {
			link = path.Join(path.Dir(to), link)
		}
		to = path.Clean(link)
	}
	return name
}

var unescape = sysfile.Unescape
