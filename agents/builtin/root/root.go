// Package root is the agent for containers (domain 1). It serves the metrics of PCP's
// pmdaroot, with the same PMIDs, and a socket at which other agents ask for the first
// process, the host name and the control group of a container:
//
//	containers    containers of Docker, Podman and LXC, and those of containerd and CRI-O
//
// Containers are found in the stores of the engines, which belong to root, and in the
// control groups and processes of this host (groups.go, process.go). The agent runs no
// command and enters no name space, so it needs only rights to read: those of root,
// with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
//
// # Trust
//
// The agent runs as root and reads what others write. A container chooses its files,
// its environment and its command line; a user chooses the names of their control
// groups. So each read has a limit, opens regular files only, does not follow links out
// of a container, and cannot block the agent if it is of something that a user can make
// block (guard.go). What a user makes never hides or replaces a container of root.
//
// Comments that start with "C differs" say what pmdaroot does otherwise.
package root

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host, without a socket.
type Options struct {
	Docker     string // directory of Docker; "" is /var/lib/docker
	PodmanData string // containers of Podman and CRI-O; "" is /var/lib/containers/storage/overlay-containers
	PodmanRun  string // their state; "" is /run/containers/storage/overlay-containers
	LXC        string // containers of LXC; "" is /var/lib/lxc
	Containerd string // state of containerd; "" is /run/containerd
	Proc       string // "" is /proc
	Cgroup     string // directory with the hierarchies of control groups; "" is /sys/fs/cgroup and all others

	// DockerSlice is the path of the control group that has the scopes of Docker. It
	// is used for a container whose control group is not found; "" is Docker's own
	// driver for control groups.
	DockerSlice string

	// Socket is the path of the socket; "" is none.
	Socket string

	// Log gets messages about the host and the socket; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host, with the Options of FromEnv.
func New(domain int) (agents.Agent, error) { return Open(domain, FromEnv()) }

// FromEnv returns the Options that the environment variables of pmdaroot set. The
// socket is that of PCP's programs. There is none if the process is not root's, because it
// could not answer for the containers of others, and if PMCD_ROOT_AGENT is 0, as for a
// pmcd beside another one.
func FromEnv() Options {
	o := Options{
		Docker:      os.Getenv("PCP_DOCKER_DIR"),
		PodmanData:  os.Getenv("PCP_PODMAN_DATADIR"),
		PodmanRun:   os.Getenv("PCP_PODMAN_RUNDIR"),
		LXC:         os.Getenv("PCP_LXC_DIR"),
		Cgroup:      os.Getenv("PCP_CGROUP_DIR"),
		DockerSlice: os.Getenv("PCP_SYSTEMD_CGROUP"),
	}
	if os.Geteuid() == 0 && os.Getenv("PMCD_ROOT_AGENT") != "0" {
		o.Socket = pmdaroot.Default()
	}
	return o
}

// cgroupDir is where hierarchies are usually mounted.
const cgroupDir = "/sys/fs/cgroup"

// setDefaults sets the fields that are empty.
func (o *Options) setDefaults() {
	const storage = "containers/storage/overlay-containers"
	o.Docker = cmp.Or(o.Docker, "/var/lib/docker")
	o.PodmanData = cmp.Or(o.PodmanData, filepath.Join("/var/lib", storage))
	o.PodmanRun = cmp.Or(o.PodmanRun, filepath.Join("/run", storage))
	o.LXC = cmp.Or(o.LXC, "/var/lib/lxc")
	o.Containerd = cmp.Or(o.Containerd, "/run/containerd")
	o.Proc = cmp.Or(o.Proc, "/proc")
	o.Cgroup = filepath.Clean(cmp.Or(o.Cgroup, cgroupDir))
}

// Open returns the agent that o describes. It listens at the socket, unless another
// pmdaroot does.
func Open(domain int, o Options) (agents.Agent, error) {
	o.setDefaults()
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "root", "domain", domain)
	a := &agent{newTable(o), cache.New(pdu.NewInDom(domain, 0), cache.Options{})}
	config := pmda.Config{Name: "root", Domain: domain, Metrics: a.metrics(), Help: help, Log: o.Log}
	if o.Socket != "" {
		s := startServer(a.table, o.Socket, o.Log)
		config.Close = s.close
	}
	made, err := pmda.New(config)
	if err != nil && config.Close != nil {
		err = errors.Join(err, config.Close())
	}
	return made, err
}

//go:embed help.txt
var help string

// An agent has the metrics.
type agent struct {
	table *table
	insts *cache.Cache // with an *instance each
}

// An instance is a container, or nil if it is gone: its strings may be long.
type instance struct{ *container }

// maxInactive is the number of containers that are gone whose ids are remembered.
const maxInactive = 10000

// refresh sets the instances. As with pmdaroot, ids begin at 0 at each start of the agent, in the
// order in which containers are found.
func (a *agent) refresh(_ context.Context, r *pmda.Request) error {
	if err := r.Err(); err != nil {
		return err
	}
	a.insts.Each(func(_ int32, _ string, data any) bool {
		data.(*instance).container = nil
		return true
	})
	a.insts.HideAll()
	for _, c := range a.table.containers() {
		if _, err := a.insts.Add(c.id, &instance{c}); err != nil {
			return err // all ids are used
		}
	}
	a.insts.LimitInactive(maxInactive)
	return nil
}

func (a *agent) metrics() []pmda.Metric {
	source := &pmda.Source{Read: a.refresh}
	indom := &pmda.InDom{Serial: 0, Insts: a.insts, Source: source}
	var list []pmda.Metric
	add := func(name string, typ pdu.MetricType, sem pdu.Sem, f func(v *pmda.Value, c *instance)) {
		list = append(list, pmda.Metric{Cluster: 0, Item: len(list), Name: "containers." + name, Type: typ, Sem: sem,
			InDom: indom, Source: source, Fetch: pmda.FromData(f)})
	}
	state := func(s state) func(v *pmda.Value, c *instance) {
		return func(v *pmda.Value, c *instance) {
			if c.state == s {
				v.SetUint(1)
			} else {
				v.SetUint(0)
			}
		}
	}
	add("engine", pdu.MetricString, pdu.SemDiscrete, func(v *pmda.Value, c *instance) { v.SetString(c.engine) })
	add("name", pdu.MetricString, pdu.SemInstant, func(v *pmda.Value, c *instance) { v.SetString(cmp.Or(c.name, "?")) })
	add("pid", pdu.MetricU32, pdu.SemInstant, func(v *pmda.Value, c *instance) {
		if c.pid > 0 {
			v.SetUint(uint64(c.pid))
		}
	})
	add("state.running", pdu.MetricU32, pdu.SemInstant, state(running))
	add("state.paused", pdu.MetricU32, pdu.SemInstant, state(paused))
	add("state.restarting", pdu.MetricU32, pdu.SemInstant, state(restarting))
	add("cgroup", pdu.MetricString, pdu.SemDiscrete, func(v *pmda.Value, c *instance) {
		if c.pid > 0 {
			v.SetString(c.cgroup)
		}
	})
	return list
}
