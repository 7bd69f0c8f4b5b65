// Package cgroups knows where the hierarchies of control groups are mounted, and which
// groups are those of containers (cgroups(7)).
package cgroups

import "strings"

// Engines, as [Container] and the agent root name them.
const (
	Podman     = "podman"
	Docker     = "docker"
	LXC        = "lxc"
	Containerd = "containerd"
	CRIO       = "cri-o"
)

// Container returns the id of a container and its engine from the name of a control group
// and that of its parent; "" if the group is not that of a container.
//
//	docker-ID.scope, docker/ID                           Docker
//	libpod-ID.scope, libpod-ID, libpod-payload-ID        Podman
//	crio-ID.scope, crio-ID                               CRI-O
//	cri-containerd-ID.scope, nerdctl-ID.scope            containerd
//	SLICE:cri-containerd:ID, NAMESPACE/ID, kubepods/podUID/ID
//	lxc.payload.NAME, lxc.payload/NAME, lxc/NAME         LXC
func Container(parent, name string) (id, engine string) {
	if box, ok := strings.CutPrefix(name, "lxc.payload."); ok && IsName(box) {
		return box, LXC
	}
	if (parent == "lxc" || parent == "lxc.payload") && IsName(name) {
		return name, LXC
	}
	name = strings.TrimSuffix(name, ".scope")
	i := strings.LastIndexAny(name, "-:")
	if id = name[i+1:]; !IsID(id) {
		return "", ""
	}
	if i < 0 {
		switch parent {
		case "docker":
			return id, Docker
		case "libpod_parent": // it is a pod, and its containers are below
			return "", ""
		}
		return id, Containerd
	}
	prefix := name[:i]
	switch prefix[strings.LastIndexByte(prefix, ':')+1:] {
	case "docker":
		return id, Docker
	case "libpod", "libpod-payload":
		return id, Podman
	case "crio":
		return id, CRIO
	case "cri-containerd", "nerdctl":
		return id, Containerd
	}
	return "", "" // such as libpod-conmon-ID: it is not the container
}

// ContainerAt is Container for the last element of a path.
func ContainerAt(path string) (id, engine string) {
	parent, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	return Container(parent[strings.LastIndexByte(parent, '/')+1:], name)
}

// IsID reports whether s is an id of Docker, Podman, containerd or CRI-O under
// Kubernetes: 64 hexadecimal digits.
func IsID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

const maxName = 255 // bytes of a name that is reported

// IsName reports whether s can be the name of a container. Engines allow letters,
// digits, and the characters _ . and -.
func IsName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i, c := range []byte(s) {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z', c >= '0' && c <= '9', i > 0 && (c == '_' || c == '.' || c == '-'):
		default:
			return false
		}
	}
	return true
}
