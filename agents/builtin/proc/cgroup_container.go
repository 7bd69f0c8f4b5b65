package proc

import (
	"context"
	"path"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// readContainer finds the control group of the container that the client has
// chosen. Who has chosen none gets what the host has.
func (h *host) readContainer(_ context.Context, r *pmda.Request) error {
	h.cgroup = ""
	c := r.Client()
	if c == nil || c.Container() == "" {
		return nil
	}
	wasImpersonating := h.impersonating
	h.restoreOwn() // pmdaroot answers root, not the client
	group, err := h.root.Cgroup(c.Container())
	if wasImpersonating {
		if h.impersonate(c); !h.impersonating {
			return pdu.ErrnoPermission
		}
	}
	if group = strings.TrimPrefix(path.Clean("/"+group), "/"); err == nil && group == "" {
		err = pdu.ErrnoNoContainer // and not all groups
	}
	h.cgroup = group
	return err
}

// inContainer reports whether the group of a path below a hierarchy is that of the
// container, or one below it. Pmdaroot leaves out where Podman's are.
//
// C differs: it compares the beginning of the path, and of its last part.
func (h *host) inContainer(group []byte) bool {
	if h.cgroup == "" {
		return true
	}
	return strings.Contains(string(group)+"/", "/"+h.cgroup+"/")
}

// containerDir returns the directory that has the processes of the container, ""
// if there is none. Of version 1 it is that of the controller memory, which all
// container engines use.
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
