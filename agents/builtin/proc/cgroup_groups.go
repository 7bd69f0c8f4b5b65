package proc

import (
	"context"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// groups are the control groups of one controller of version 1, or of version 2:
// the directories below its hierarchies.
type groups struct {
	*mounts
	controller   string   // "" if all groups of version 2 have the files
	requiredFile string   // file that a group of version 2 has if the controller is enabled in it
	files        []format // of each group
	sheets       []sheet  // of each of files
	instances    instances[*group]
	known        map[string]*group // by directory
	list         []*group          // those that exist
	queue        []*group          // of findGroups
	source       *pmda.Source
	indom        *pmda.InDom
}

type group struct {
	dir       string // below host.Root
	name      string
	container string
	lastSeen  uint64
	row       int // in sheets and list
	stats     any // of the metrics that use it, see blkIO
}

// maxGroups is the largest number of control groups that are read.
const maxGroups = 1 << 16

func newGroups(m *mounts, serial int, controller, requiredFile string, device any, files ...format) *groups {
	g := &groups{
		mounts: m, controller: controller, requiredFile: requiredFile, files: files, sheets: make([]sheet, len(files)),
		known: make(map[string]*group),
	}
	g.source = &pmda.Source{Read: g.read}
	g.indom = &pmda.InDom{Serial: serial, Insts: &g.instances, Source: g.source, InstLabels: labelGroup}
	if device != nil {
		g.indom.Labels = pmda.Labels{"device_type": device}
	}
	return g
}

func labelGroup(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
	return pmda.Labels{"cgroup": i.Name}, nil
}

// read lists the groups that exist.
func (g *groups) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, g.mounts.source); err != nil {
		return err
	}
	g.instances.beginScan()
	g.list = g.list[:0]
	for _, m := range cgroups.Of(g.controller, g.mounts.list) {
		if err := g.findGroups(m); err != nil {
			return err
		}
	}
	g.instances.endScan()
	if len(g.list) < len(g.known) {
		for dir, c := range g.known {
			if c.lastSeen != g.request {
				delete(g.known, dir)
			}
		}
	}
	return nil
}

// findGroups walks the directories of a hierarchy.
//
// C differs: if there are hierarchies of both versions, it drops the groups of
// version 1, and knows only memory of version 2.
func (g *groups) findGroups(m cgroups.Mount) error {
	g.queue = append(g.queue[:0], g.groupOf([]byte(m.Path), len(m.Path)))
	var path []byte
	for i := 0; i < len(g.queue) && len(g.list) < maxGroups; i++ {
		if err := g.checkpoint(); err != nil {
			return err
		}
		c := g.queue[i]
		err := g.Path(c.dir).List(func(name []byte, typ byte) {
			if name[0] == '.' || typ != syscall.DT_DIR && typ != syscall.DT_UNKNOWN {
				return
			}
			path = append(append(append(path[:0], c.dir...), '/'), name...)
			if !cgroups.IsMountPoint(path, g.mounts.list) {
				g.queue = append(g.queue, g.groupOf(path, len(m.Path)))
			}
		})
		if err != nil { // not a directory, or removed meanwhile
			continue
		}
		c.lastSeen = g.request
		if !g.inContainer([]byte(c.dir[len(m.Path):])) {
			continue
		}
		if m.Version == 2 && g.requiredFile != anyGroup && !g.Path(c.dir).Str("/").Str(g.requiredFile).Exists() {
			continue
		}
		if data, first := g.instances.add(c.name); first { // no other mount has a group of this name
			*data, c.row = c, len(g.list)
			g.list = append(g.list, c)
		}
	}
	return nil
}

// anyGroup as requiredFile selects all groups of version 2.
const anyGroup = "."

// groupOf returns the group of a directory. mount is the length of the path of its
// hierarchy's mount point.
func (g *groups) groupOf(dir []byte, mount int) *group {
	c := g.known[string(dir)]
	if c == nil {
		c = &group{dir: string(dir), name: "/"}
		if len(dir) > mount {
			c.name = unescapeUnit(dir[mount:])
		}
		if id, engine := cgroups.ContainerAt(c.dir[mount:]); engine != cgroups.LXC {
			c.container = id
		}
		g.known[c.dir] = c
	}
	return c
}

// unescapeUnit undoes \xHH in names of systemd (systemd.unit(5)).
func unescapeUnit(b []byte) string {
	hex := func(c byte) int {
		switch {
		case c >= '0' && c <= '9':
			return int(c - '0')
		case c >= 'a' && c <= 'f':
			return int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			return int(c-'A') + 10
		}
		return -1
	}
	var to []byte
	for i := 0; i < len(b); i++ {
		if i+3 < len(b) && b[i] == '\\' && b[i+1] == 'x' {
			if hi, lo := hex(b[i+2]), hex(b[i+3]); hi >= 0 && lo >= 0 && hi+lo > 0 {
				to = append(to, byte(hi<<4|lo))
				i += 3
				continue
			}
		}
		to = append(to, b[i])
	}
	return string(to)
}

// record returns the present contents of a file of a group. The record has no
// fields if the file cannot be read.
func (g *groups) record(c *group, i int) record {
	r, f := record{&g.sheets[i], c.row}, &g.files[i]
	if r.scan != g.request {
		r.begin(g.request, len(g.list), f.fields)
	}
	if r.state[r.row] == unread {
		r.state[r.row] = absent
		if b, err := g.Path(c.dir).Str("/").Str(f.file).Whole(maxFile); err == nil && len(b) > 0 {
			f.parse(r, b)
		}
	}
	return r
}

// withField returns a FetchFunc that calls f if the file has the field.
func (g *groups) withField(i, field int, f func(v *pmda.Value, r record)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		if r := g.record(*v.Data().(**group), i); r.has(field) {
			f(v, r)
		}
		return nil
	}
}

func (g *groups) unsigned(i, field int) pmda.FetchFunc {
	return g.withField(i, field, func(v *pmda.Value, r record) { v.SetUint(r.num(field)) })
}

// containerName returns the FetchFunc of the name of a group's container, "" if the
// group does not belong to one.
func (g *groups) containerName() pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		v.SetString((*v.Data().(**group)).container)
		return nil
	}
}

// oneNumber is the format of a file with one number, oneText that of a file with
// one text.
func oneNumber(file string) format { return format{file: file, fields: 1, parse: parseWords} }

func oneText(file string) format { return format{file: file, fields: 1, parse: parseText} }
