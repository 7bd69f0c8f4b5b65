package cgroups

import (
	"strings"
	"testing"
)

// Each controller is of version 1 where a hierarchy of that version has it, and else of
// version 2, whatever else is mounted.
func TestOf(t *testing.T) {
	const v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime,nsdelegate,memory_recursiveprot 0 0\n"
	for name, tt := range map[string]struct{ mounts, memory, core string }{
		"version 2":                 {v2, "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"a VPN":                     {v2 + "net_cls /sys/fs/cgroup/net_cls cgroup rw,relatime,net_cls 0 0\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"a VPN, before":             {"net_cls /run/vpn/net_cls cgroup rw,net_cls 0 0\n" + v2, "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"freezer":                   {v2 + "none /freezer cgroup rw,relatime,freezer 0 0\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"a name without controller": {v2 + "cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"the name memory":           {v2 + "cgroup /x cgroup rw,name=memory 0 0\n", "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"memory alone":              {v2 + "none /mnt/m cgroup rw,memory 0 0\n", "/mnt/m", "/sys/fs/cgroup"},
		"memory below":              {v2 + "none /sys/fs/cgroup/memory cgroup memory,rw 0 0\n", "/sys/fs/cgroup/memory", "/sys/fs/cgroup"},
		"several in a hierarchy":    {v2 + "none /m cgroup rw,cpu,cpuacct,memory,release_agent=/x\\054y 0 0\n", "/m", "/sys/fs/cgroup"},
		"hybrid": {"tmpfs /sys/fs/cgroup tmpfs ro,mode=755 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n" +
			"cgroup /sys/fs/cgroup/systemd cgroup rw,xattr,name=systemd 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
			"/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"},
		"hybrid without memory": {"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n",
			"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"},
		"version 1":                {"cgroup /cgroup/m cgroup rw,blkio,memory 0 0\ncgroup /cgroup/c cgroup rw,cpu 0 0\n", "/cgroup/m", ""},
		"version 1 without memory": {"cgroup /cgroup/c cgroup rw,cpu 0 0\n", "", ""},
		"mounted twice":            {v2 + v2 + "cgroup2 /run/cilium/cgroupv2 cgroup2 rw 0 0\n", "/sys/fs/cgroup /run/cilium/cgroupv2", "/sys/fs/cgroup /run/cilium/cgroupv2"},
		"one above another":        {"none /sys/fs/cgroup cgroup rw,memory 0 0\n" + v2, "/sys/fs/cgroup", "/sys/fs/cgroup"},
		"below a tmpfs":            {v2 + "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n", "", ""},
		"in a container": {v2 + "cgroup2 /host/sys/fs/cgroup cgroup2 rw 0 0\nnet_cls /host/sys/fs/cgroup/net_cls cgroup rw,net_cls 0 0\n" +
			"none /host/m cgroup rw,memory 0 0\n", "/m", "/sys/fs/cgroup"},
		"a blank in the path": {"none /a\\040b\\134c\\043 cgroup2 rw 0 0\n", `/a b\c#`, `/a b\c#`},
		"none":                {"proc /proc proc rw 0 0\ncgroup2\ncgroup2 x\ncgroup /x\ncgroup2 x cgroup2 rw 0 0\n\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			mounts := ParseMounts([]byte("proc /proc proc rw 0 0\n"+tt.mounts), "/host")
			for controller, want := range map[string]string{"memory": tt.memory, "": tt.core} {
				var paths []string
				for _, m := range Of(controller, mounts) {
					paths = append(paths, m.Path)
				}
				if got := strings.Join(paths, " "); got != want {
					t.Errorf("controller %q: got %q, want %q", controller, got, want)
				}
			}
		})
	}
	mounts := ParseMounts([]byte("net_cls /sys/fs/cgroup/net_cls cgroup rw,net_cls 0 0"), "")
	if !IsMountPoint([]byte("/sys/fs/cgroup/net_cls"), mounts) || IsMountPoint("/sys/fs/cgroup/net", mounts) {
		t.Error("mount points are not recognized")
	}
}
