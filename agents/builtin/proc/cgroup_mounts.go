package proc

import (
	"bytes"
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// mounts are the controllers, from /proc/cgroups, and the mount points of the
// hierarchies of control groups, from /proc/mounts (cgroups(7)).
type mounts struct {
	*host
	controllers instances[controller]
	points      instances[mount]
	list        []*mount
	version     int // 2 if all hierarchies are of version 2, else 1

	subsys, source *pmda.Source
}

type controller struct{ hierarchy, groups, enabled uint64 }

type mount struct {
	path        string
	options     string
	version     int
	controllers string // with commas, the value of cgroup.mounts.subsys
}

func newMounts(h *host) *mounts {
	m := &mounts{host: h}
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

// parseMounts parses
//
//	cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
func (m *mounts) parseMounts(b []byte) {
	m.points.beginScan()
	defer m.points.endScan()
	m.list, m.version = m.list[:0], 2
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		_, rest := sysfile.Field(line)
		path, rest := sysfile.Field(rest)
		typ, rest := sysfile.Field(rest)
		options, _ := sysfile.Field(rest)
		c := mount{path: unescapeMount(path), options: string(options)}
		switch string(typ) {
		case "cgroup":
			c.version, m.version = 1, 1
		case "cgroup2":
			c.version = 2
		default:
			continue
		}
		// If several are mounted at one path, only the last is visible there.
		if data, first := m.points.add(c.path); first {
			c.controllers = m.controllersOf(&c)
			*data = c
			m.list = append(m.list, data)
		}
	}
	if len(m.list) == 0 {
		m.version = 1
	}
}

// controllersOf returns the controllers of a hierarchy, "?" if it has none.
func (m *mounts) controllersOf(c *mount) string {
	var names []string
	if c.version == 1 {
		for _, o := range strings.Split(c.options, ",") {
			if i := m.controllers.known[o]; i != nil && i.lastScan == m.controllers.scan {
				names = append(names, o)
			}
		}
	}
	if names == nil {
		return "?"
	}
	return strings.Join(names, ",")
}

// has reports whether a hierarchy has a controller.
func (c *mount) has(controller string) bool {
	for o := range strings.SplitSeq(c.options, ",") {
		if o == controller {
			return true
		}
	}
	return false
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
		if dir == c.path || strings.HasPrefix(dir, strings.TrimSuffix(c.path, "/")+"/") {
			return dir
		}
	}
	if strings.HasPrefix(dir, "/sys/fs/cgroup/") {
		return dir
	}
	return ""
}

// unescapeMount undoes the kernel's escaping of blanks in /proc/mounts.
func unescapeMount(b []byte) string {
	for _, e := range []string{" \\040", "\t\\011", "\n\\012", "\\\\134"} {
		b = bytes.ReplaceAll(b, []byte(e[1:]), []byte(e[:1]))
	}
	return string(b)
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
			v.SetString(v.Data().(*mount).controllers)
			return nil
		}},
	})...)
	return append(ms,
		table(pmda.Metric{Source: m.subsys}, []row{{37, 1, "cgroup.subsys.count", u32, instant, count, pmda.FromUint(m.controllers.count)}})[0],
		table(pmda.Metric{Source: m.source}, []row{{38, 1, "cgroup.mounts.count", u32, instant, count, pmda.FromUint(m.points.count)}})[0],
	)
}
