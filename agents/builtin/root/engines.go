package root

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/builtin/internal/pidfile"
)

// The caller of the methods in this file holds mu.

// groupOf returns the group of a container of root; nil if none was found. That of a
// user with the same id is not the container's.
func groupOf(groups map[string]*group, id string) *group {
	if g := groups[id]; g != nil && !g.ofUser {
		return g
	}
	return nil
}

// docker returns the containers of Docker.
//
// C differs: a container that is paused or being restarted is "running", too.
func (t *table) docker(groups map[string]*group) (list []*container) {
	for _, e := range readNames(filepath.Join(t.o.Docker, "containers"), maxContainers) {
		id := e.Name()
		if !cgroups.IsName(id) {
			continue
		}
		c := &container{id: id, engine: docker, pid: -1, cgroup: "/docker/" + id}
		if t.o.DockerSlice != "" {
			c.cgroup = strings.TrimRight(t.o.DockerSlice, "/") + "/docker-" + id + ".scope"
		}
		list = append(list, c)
		dir := filepath.Join(t.o.Docker, "containers", id)
		conf, err := parse(&t.files, filepath.Join(dir, "config.v2.json"), maxConfig, parseDocker)
		if errors.Is(err, fs.ErrNotExist) {
			conf, err = parse(&t.files, filepath.Join(dir, "config.json"), maxConfig, parseDocker)
		}
		t.warn(dir, err)
		if err != nil {
			continue
		}
		if name := strings.TrimPrefix(conf.Name, "/"); cgroups.IsName(name) {
			c.name = name
		}
		c.hostname = conf.Config.Hostname
		pid := conf.State.Pid
		switch {
		case conf.State.Paused:
			c.state = paused
		case conf.State.Restarting:
			c.state = restarting
		case conf.State.Running:
			c.state = running
		default:
			pid = 0
		}
		declared := c.state
		t.setState(c, groupOf(groups, id), pid)
		if c.pid <= 0 && declared != restarting { // Docker has ended without a word
			c.state = stopped
		}
	}
	return list
}

// A dockerConfig is the file config.v2.json of a container.
type dockerConfig struct {
	Name   string
	Config struct{ Hostname string }
	State  struct {
		Running, Paused, Restarting bool
		Pid                         int
	}
}

func parseDocker(b []byte) (c dockerConfig, err error) {
	err = json.Unmarshal(b, &c)
	return c, err
}

// podman returns the containers of root's Podman, and those of CRI-O, which has the
// same store.
//
// C differs: it does not read the lists of volatile containers (podman run --rm), and
// has no state "paused".
func (t *table) podman(groups map[string]*group) (list []*container) {
	for _, path := range []string{
		filepath.Join(t.o.PodmanData, "containers.json"),
		filepath.Join(t.o.PodmanData, "volatile-containers.json"),
		filepath.Join(t.o.PodmanRun, "volatile-containers.json"),
	} {
		stored, err := parse(&t.files, path, maxStore, parseStore)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		t.warn(path, err)
		for _, s := range stored[:min(len(stored), maxContainers)] {
			if !cgroups.IsName(s.ID) {
				continue
			}
			c := &container{id: s.ID, engine: podman, cgroup: "/libpod-" + s.ID + ".scope"}
			if len(s.Names) > 0 && cgroups.IsName(s.Names[len(s.Names)-1]) {
				c.name = s.Names[len(s.Names)-1]
			}
			g := groupOf(groups, s.ID)
			if g != nil && g.engine == crio {
				c.engine = crio
			}
			for _, dir := range []string{t.o.PodmanData, t.o.PodmanRun} {
				if spec, err := parse(&t.files, filepath.Join(dir, s.ID, "userdata/config.json"), maxConfig, parseSpec); err == nil {
					c.hostname = spec.Hostname
					c.name = cmp.Or(c.name, spec.name())
					break
				}
			}
			t.setState(c, g, int(pidfile.Parse(string(bytes.TrimSpace(readHead(filepath.Join(t.o.PodmanRun, s.ID, "userdata/pidfile"), 64))))))
			list = append(list, c)
		}
	}
	return list
}

// A stored is an element of containers.json.
type stored struct {
	ID    string   `json:"id"`
	Names []string `json:"names"`
}

func parseStore(b []byte) (list []stored, err error) {
	err = json.Unmarshal(b, &list)
	return list, err
}

// A spec is config.json of a container, as an engine gives it to the program that
// starts the container (OCI Runtime Specification).
type spec struct {
	Hostname    string            `json:"hostname"`
	Annotations map[string]string `json:"annotations"`
}

func parseSpec(b []byte) (s spec, err error) {
	err = json.Unmarshal(b, &s)
	// The file is remembered, and most annotations are not used.
	kept := make(map[string]string)
	for _, key := range []string{annName, annPod, annNamespace, annType, annNerdctl} {
		if v, ok := s.Annotations[key]; ok {
			kept[key] = v
		}
	}
	s.Annotations = kept
	return s, err
}

// Annotations of containerd, which CRI-O has, too.
const (
	annName      = "io.kubernetes.cri.container-name"
	annPod       = "io.kubernetes.cri.sandbox-name"
	annNamespace = "io.kubernetes.cri.sandbox-namespace"
	annType      = "io.kubernetes.cri.container-type"
	annNerdctl   = "nerdctl/name"
)

// name returns the name of a container of containerd: as under nerdctl, or as in the
// names that CRI-O makes for Kubernetes. It is "" if there is none.
func (s spec) name() string {
	a := s.Annotations
	name := a[annNerdctl]
	if name == "" {
		of := a[annName]
		if a[annType] == "sandbox" {
			of = "POD"
		}
		if of == "" || a[annPod] == "" {
			return ""
		}
		name = "k8s_" + of + "_" + a[annPod] + "_" + a[annNamespace]
	}
	if !cgroups.IsName(name) {
		return ""
	}
	return name
}

// lxc returns the containers of root's LXC. Those that run have a control group. Where a group of
// the name is left over, LXC makes one with -1, -2 and so on after the name.
//
// C differs: it runs lxc-info for each value; a container that is stopped is "paused".
func (t *table) lxc(groups map[string]*group) (list []*container) {
	stored := make(map[string]bool)
	for _, e := range readNames(t.o.LXC, maxContainers) {
		if name := e.Name(); cgroups.IsName(name) && !e.Type().IsRegular() {
			stored[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		c := &container{id: name, engine: lxc, name: name, cgroup: "/lxc/" + name}
		of := name
		for n := 1; c.pid == 0; n++ {
			g := groupOf(groups, of)
			if g == nil || g.engine != lxc || of != name && stored[of] {
				break
			}
			t.setState(c, g, 0)
			delete(groups, of) // it is not a container of its own
			of = name + "-" + strconv.Itoa(n)
		}
		list = append(list, c)
	}
	return list
}

// others returns the containers that no store of root has, and that have processes:
// those of containerd and CRI-O, and those of users, each with a store of its own.
//
// C differs: it does not know them.
func (t *table) others(groups map[string]*group, monitors map[string]monitored) (list []*container) {
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		g := groups[id]
		c := &container{id: id, engine: g.engine, ofUser: g.ofUser}
		t.setState(c, g, 0)
		if c.pid == 0 {
			continue
		}
		if m, ok := monitors[id]; ok && (m.uid != 0) == g.ofUser {
			c.name = m.name
		}
		switch {
		case g.engine == lxc:
			c.name = id
		case g.engine == containerd && !g.ofUser:
			t.describe(c)
		}
		list = append(list, c)
	}
	for _, id := range slices.Sorted(maps.Keys(monitors)) {
		if m := monitors[id]; groups[id] == nil {
			list = append(list, &container{id: id, engine: podman, name: m.name, pid: m.pid, state: running,
				cgroup: "/libpod-" + id + ".scope", ofUser: m.uid != 0})
		}
	}
	// What users make comes last, and so has no effect on the others.
	ofUser := func(c *container) bool { return c.ofUser }
	ofRoot := slices.DeleteFunc(slices.Clone(list), ofUser)
	return append(ofRoot, slices.DeleteFunc(list, func(c *container) bool { return !c.ofUser })...)
}

// describe sets what containerd knows of a container.
func (t *table) describe(c *container) {
	const tasks = "io.containerd.runtime.v2.task"
	for _, namespace := range readNames(filepath.Join(t.o.Containerd, tasks), 256) {
		if s, err := parse(&t.files, filepath.Join(t.o.Containerd, tasks, namespace.Name(), c.id, "config.json"), maxConfig, parseSpec); err == nil {
			c.hostname, c.name = s.Hostname, s.name()
			return
		}
	}
}
