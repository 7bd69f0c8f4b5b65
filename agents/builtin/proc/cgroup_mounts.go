package proc

import (
	"context"
	"maps"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// mounts are the controllers, from /proc/cgroups, and the mount points of the
// hierarchies of control groups, from /proc/mounts (cgroups(7)).
type mounts struct {
	*host
	controllers instances[controller]
	points      instances[string] // with the value of cgroup.mounts.subsys
	list        []cgroups.Mount
	hierarchies map[string]*hierarchy // by mount point

	subsys, source *pmda.Source
}

type controller struct{ hierarchy, groups, enabled uint64 }

func newMounts(h *host) *mounts {
	m := &mounts{host: h, hierarchies: make(map[string]*hierarchy)}
	m.subsys = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		b, _ := h.Path("/proc/cgroups").Text(maxFile)
		m.parseControllers(b)
		return nil
	}}
	m.source = &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		if err := r.ReadSource(ctx, h.container); err != nil {
			return err
		}
		if err := r.ReadSource(ctx, m.subsys); err != nil {
			return err
		}
		b, _ := h.Path("/proc/mounts").Text(maxFile)
		m.parseMounts(b)
		return nil
	}}
	return m
}

// parseControllers parses
//
//	#subsys_name	hierarchy	num_cgroups	enabled
//	cpuset	3	1	1
func (m *mounts) parseControllers(b []byte) {
	m.controllers.beginScan()
	defer m.controllers.endScan()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		name, rest := sysfile.Field(line)
		var c controller
		ok := len(name) > 0 && name[0] != '#'
		for _, n := range []*uint64{&c.hierarchy, &c.groups, &c.enabled} {
			var word []byte
			word, rest = sysfile.Field(rest)
			var isNumber bool
			*n, isNumber = sysfile.Uint(word)
			ok = ok && isNumber
		}
		if ok {
			data, _ := m.controllers.add(string(name))
			*data = c
		}
	}
}

// parseMounts parses /proc/mounts. A hierarchy whose mount point does not exist cannot be
// read: another file system is mounted above it.
func (m *mounts) parseMounts(b []byte) {
	m.points.beginScan()
	defer m.points.endScan()
	m.list = m.list[:0]
	for _, c := range cgroups.ParseMounts(b, m.Root) {
		data, _ := m.points.add(c.Path)
		*data = m.controllersOf(c)
		if m.Path(c.Path).Exists() {
			m.list = append(m.list, c)
		}
	}
	maps.DeleteFunc(m.hierarchies, func(path string, _ *hierarchy) bool { return !cgroups.IsMountPoint(path, m.list) })
}

// controllersOf returns the controllers of a hierarchy, "?" if it has none.
func (m *mounts) controllersOf(c cgroups.Mount) string {
	var names []string
	for _, o := range c.Options {
		if i := m.controllers.known[o]; i != nil && i.lastScan == m.controllers.scan {
			names = append(names, o)
		}
	}
	if names == nil {
		return "?"
	}
	return strings.Join(names, ",")
}

// checkedDir returns dir, which a client has given as the directory of a control
// group, or "" if dir is not below a mount point of a hierarchy or /sys/fs/cgroup.
// Any other directory may be on a file system that the client controls, and the
// agent would block on it. /sys/fs/cgroup has links to hierarchies, with the names
// of controllers.
//
// C differs: it reads any directory.
func (m *mounts) checkedDir(dir string) string {
	for _, c := range m.list {
		if dir == c.Path || strings.HasPrefix(dir, strings.TrimSuffix(c.Path, "/")+"/") {
			return dir
		}
	}
	if strings.HasPrefix(dir, "/sys/fs/cgroup/") {
		return dir
	}
	return ""
}

func (m *mounts) metrics() []pmda.Metric {
	subsys := &pmda.InDom{Serial: indomSubsys, Insts: &m.controllers, Source: m.subsys}
	points := &pmda.InDom{Serial: indomMounts, Insts: &m.points, Source: m.source}
	of := func(f func(c *controller) uint64) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			v.SetUint(f(v.Data().(*controller)))
			return nil
		}
	}
	ms := table(pmda.Metric{InDom: subsys}, []row{
		{37, 0, "cgroup.subsys.hierarchy", u32, instant, none, of(func(c *controller) uint64 { return c.hierarchy })},
		{37, 2, "cgroup.subsys.num_cgroups", u32, instant, none, of(func(c *controller) uint64 { return c.groups })},
		{37, 3, "cgroup.subsys.enabled", u32, instant, none, of(func(c *controller) uint64 { return c.enabled })},
	})
	ms = append(ms, table(pmda.Metric{InDom: points}, []row{
		{38, 0, "cgroup.mounts.subsys", str, instant, none, func(_ context.Context, v *pmda.Value) error {
			v.SetString(*v.Data().(*string))
			return nil
		}},
	})...)
	return append(ms,
		table(pmda.Metric{Source: m.subsys}, []row{{37, 1, "cgroup.subsys.count", u32, instant, count, pmda.FromUint(m.controllers.count)}})[0],
		table(pmda.Metric{Source: m.source}, []row{{38, 1, "cgroup.mounts.count", u32, instant, count, pmda.FromUint(m.points.count)}})[0],
	)
}
