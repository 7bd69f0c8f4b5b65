package root

import (
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
)

// A container is one of an engine. It is never written after it is published.
type container struct {
	id     string // the name of the instance
	engine string
	name   string // "" if it is not known
	state  state

	// pid is the first process on the host. If there is none, it is what pmdaroot
	// tells those that ask for it: -1 for Docker, else 0.
	pid int

	// cgroup is the path of the control group, with a leading slash. If it was not
	// found, it is what pmdaroot makes of the id.
	cgroup string

	// ofUser is set if it is not root's, but of a user of this host.
	ofUser bool

	// hostname is the host name that the engine has given it; "" if not known.
	hostname string
}

// A state is that of a container.
type state int

const (
	stopped state = iota
	running
	paused
	restarting
)

// Names of engines.
const (
	podman     = cgroups.Podman
	docker     = cgroups.Docker
	lxc        = cgroups.LXC
	containerd = cgroups.Containerd
	crio       = cgroups.CRIO
)

const minPrefix = 4 // bytes of an id that stand for the id

// find returns the container that a client names: by its id, its name, or the
// beginning of its id. If several containers have the name or the beginning of the id,
// it is the only one that runs, or else none. Containers of root come first: what a
// user makes does not hide them.
//
// C differs: one equal byte at the beginning is enough, and the first container wins.
func find(list []*container, name string) *container {
	if name == "" {
		return nil
	}
	short := strings.TrimPrefix(name, "/") // Docker's names begin with a slash
	matches := []func(c *container) bool{
		func(c *container) bool { return c.id == name },
		func(c *container) bool { return c.name == short && c.name != "" },
		func(c *container) bool {
			return c.engine != lxc && len(name) >= minPrefix && strings.HasPrefix(c.id, name)
		},
	}
	for _, ofUser := range []bool{false, true} {
		for _, match := range matches {
			c, several := only(list, func(c *container) bool { return c.ofUser == ofUser && match(c) })
			if c != nil || several {
				return c
			}
		}
	}
	return nil
}

// only returns the container that matches, or of several the one that runs; nil and
// true if there are several all the same.
func only(list []*container, match func(c *container) bool) (c *container, several bool) {
	var all, run []*container
	for _, c := range list {
		if !match(c) {
			continue
		}
		all = append(all, c)
		if c.pid > 0 {
			run = append(run, c)
		}
	}
	switch {
	case len(all) == 1:
		return all[0], false
	case len(run) == 1:
		return run[0], false
	}
	return nil, len(all) > 1
}
