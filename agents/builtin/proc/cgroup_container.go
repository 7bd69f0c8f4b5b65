package proc

import (
	"context"
	"path"
	"strings"

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
// container's or below it. For Podman, pmdaroot's path lacks the parent group.
//
// C differs: it compares the beginning of the path, and the beginning of its last
// element.
func (h *host) inContainer(group []byte) bool {
	if h.cgroup == "" {
		return true
	}
	return strings.Contains(string(group)+"/", "/"+h.cgroup+"/")
}

// containerDir returns the directory of the container's control group, "" if there
// is none. With version 1 it is below the controller memory, which all container
// engines use.
func (m *mounts) containerDir() string {
	for _, c := range m.list {
		if c.version != m.version || c.version == 1 && !c.has("memory") {
			continue
		}
		for _, parent := range []string{"", "/machine.slice"} {
			if dir := c.path + parent + "/" + m.cgroup; m.Path(dir).Exists() {
				return dir
			}
		}
	}
	return ""
}
