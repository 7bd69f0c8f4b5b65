package proc

import (
	"context"
	"path"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// readContainer finds the control group of the container that the client has
// chosen. A client without a container gets the values of the host.
func (h *host) readContainer(_ context.Context, r *pmda.Request) error {
	h.cgroup = ""
	c := r.Client()
	if c == nil || c.Container() == "" {
		return nil
	}
	wasImpersonating := h.impersonating
	h.restoreOwn() // pmdaroot replies to root, not to the client's user
	group, err := h.root.Cgroup(c.Container())
	if wasImpersonating {
		if h.impersonate(c); !h.impersonating {
			return pdu.ErrnoPermission
		}
	}
	if group = strings.TrimPrefix(path.Clean("/"+group), "/"); err == nil && group == "" {
		err = pdu.ErrnoNoContainer // "" would stand for all groups
	}
	h.cgroup = group
	return err
}

// inContainer reports whether a group, given by its path below a hierarchy, is the
// container's or below it. For Podman, PCP's pmdaroot leaves out the parent group. Users may make
// groups below their own, so no other group may be anywhere.
//
// C differs: it compares the beginning of the path, and the beginning of its last
// element.
func (h *host) inContainer(group string) bool {
	if h.cgroup == "" {
		return true
	}
	if strings.HasPrefix(h.cgroup, "libpod-") {
		return strings.Contains(group+"/", "/"+h.cgroup+"/")
	}
	return strings.HasPrefix(group+"/", "/"+h.cgroup+"/")
}

// containerDir returns the directory of the container's control group, "" if there
// is none. All container engines use the controller memory; where a hierarchy of version 1
// has it and another one has the group, as on a host of version 2 with one hierarchy of
// version 1, it is that of the other.
func (m *mounts) containerDir() string {
	for _, c := range append(cgroups.Of("memory", m.list), m.list...) {
		for _, parent := range []string{"", "/machine.slice"} {
			if dir := c.Path + parent + "/" + m.cgroup; m.Path(dir).Exists() {
				return dir
			}
		}
	}
	return ""
}
