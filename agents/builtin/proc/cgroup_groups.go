package proc

import (
	"context"
	"slices"
	"strconv"
	"strings"
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
	requiredFile string   // file that a group of version 2 has if the controller is enabled in it; "" if none has
	files        []format // of each group
	sheets       []sheet  // of each of files
	instances    instances[group]
	list         []*group           // those that exist
	missing      map[string]missing // by name of a file
	source       *pmda.Source
	indom        *pmda.InDom
}

// A group is a directory, as a group of one controller.
type group struct {
	*groupDir
	row   int // in sheets and list
	stats any // of the metrics that use it, see blkIO
}

// A groupDir is a directory of a hierarchy.
type groupDir struct {
	dir       string // below host.Root
	name      string
	below     string // the path below the mount point
	container string
	noPrefix  bool   // names of files do not begin with that of the controller
	lastSeen  uint64 // number of the last request that found it
}

// maxGroups is the largest number of control groups that are read.
const maxGroups = 1 << 16

func newGroups(m *mounts, serial int, controller, requiredFile string, device any, files ...format) *groups {
	g := &groups{
		mounts: m, controller: controller, requiredFile: requiredFile, files: files, sheets: make([]sheet, len(files)), missing: make(map[string]missing),
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
//
// C differs: if there are hierarchies of both versions, it drops the groups of
// version 1, and knows only memory of version 2.
func (g *groups) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, g.mounts.source); err != nil {
		return err
	}
	g.instances.beginScan()
	g.list = g.list[:0]
	for _, m := range cgroups.Of(g.controller, g.mounts.list) {
		if m.Version == 2 && g.requiredFile == "" {
			break
		}
		dirs, err := g.walk(m)
		if err != nil {
			return err
		}
		noPrefix := m.Version == 1 && slices.Contains(m.Options, "noprefix")
		for _, d := range dirs {
			if err := g.ended(); err != nil {
				return err
			}
			d.noPrefix = noPrefix
			if !g.inContainer(d.below) || m.Version == 2 && g.requiredFile != anyGroup && !g.Path(d.dir).Str("/").Str(g.requiredFile).Exists() {
				continue
			}
			if c, first := g.instances.add(d.name); first { // no other mount has a group of this name
				c.groupDir, c.row = d, len(g.list)
				g.list = append(g.list, c)
			}
		}
	}
	g.instances.endScan()
	return nil
}

// A hierarchy has the directories of a mount.
type hierarchy struct {
	request uint64 // number of the request that has walked it
	known   map[string]*groupDir
	list    []*groupDir
}

// walk returns the directories of a hierarchy. It walks them once in a request, for all
// controllers.
func (m *mounts) walk(at cgroups.Mount) ([]*groupDir, error) {
	h := m.hierarchies[at.Path]
	if h == nil {
		h = &hierarchy{known: make(map[string]*groupDir)}
		m.hierarchies[at.Path] = h
	}
	if h.request == m.request {
		return h.list, nil
	}
	queue := append(h.list[:0], h.dir([]byte(at.Path), len(at.Path)))
	n := 0 // of queue, that exist
	var path []byte
	for i := 0; i < len(queue) && n < maxGroups; i++ {
		if err := m.ended(); err != nil {
			return nil, err
		}
		d := queue[i]
		var err error
		if i == 0 || !m.Path(d.dir).IsLeaf() {
			err = m.Path(d.dir).List(func(name []byte, typ byte) {
				if name[0] == '.' || typ != syscall.DT_DIR && typ != syscall.DT_UNKNOWN {
					return
				}
				path = append(append(append(path[:0], d.dir...), '/'), name...)
				if !cgroups.IsMountPoint(path, m.list) {
					queue = append(queue, h.dir(path, len(at.Path)))
				}
			})
		}
		if err == nil { // otherwise not a directory, or removed meanwhile
			d.lastSeen = m.request
			queue[n] = d
			n++
		}
	}
	clear(queue[n:])
	h.request, h.list = m.request, queue[:n]
	if n < len(h.known) {
		for dir, d := range h.known {
			if d.lastSeen != m.request {
				delete(h.known, dir)
			}
		}
	}
	return h.list, nil
}

// anyGroup as requiredFile selects all groups of version 2.
const anyGroup = "."

// dir returns a directory. mount is the length of the path of the mount point.
func (h *hierarchy) dir(dir []byte, mount int) *groupDir {
	d := h.known[string(dir)]
	if d == nil {
		d = &groupDir{dir: string(dir), name: "/", below: string(dir[mount:])}
		if d.below != "" {
			d.name = unescapeUnit(dir[mount:])
		}
		if id, engine := cgroups.ContainerAt(d.below); engine != cgroups.LXC {
			d.container = id
		}
		h.known[d.dir] = d
	}
	return d
}

// unescapeUnit undoes \xHH in names of systemd (systemd.unit(5)).
func unescapeUnit(b []byte) string {
	var to []byte
	for i := 0; i < len(b); i++ {
		c := b[i]
		if i+3 < len(b) && c == '\\' && b[i+1] == 'x' {
			if n, err := strconv.ParseUint(string(b[i+2:i+4]), 16, 8); err == nil && n > 0 {
				c = byte(n)
				i += 3
			}
		}
		to = append(to, c)
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
		if b := g.text(c, f.file); len(b) > 0 {
			f.parse(r, b)
		}
	}
	return r
}

// missing says how many groups have lacked a file in a request.
type missing struct {
	request uint64
	groups  int
}

// text returns a file of a group, nil if it cannot be read. Below the root of a hierarchy, all
// groups of a controller have the same files: what two of them lack is not tried in the others,
// until the next request. (One may be about to be removed.) Of version 1, nine of 23 files do not
// exist since Linux 5.0.
//
// C differs: it does not know the option noprefix of a mount, as that of /dev/cpuset.
func (g *groups) text(c *group, file string) []byte {
	if c.noPrefix {
		_, file, _ = strings.Cut(file, ".")
	}
	lack := g.missing[file]
	if lack.request != g.request {
		lack = missing{request: g.request}
	}
	if lack.groups >= 2 {
		return nil
	}
	b, err := g.Path(c.dir).Str("/").Str(file).Whole(maxFile)
	if err == syscall.ENOENT && c.below != "" && g.controller != "" && g.Path(c.dir).Exists() {
		lack.groups++
		g.missing[file] = lack
	}
	return b
}

// withField returns a FetchFunc that calls f if the file has the field.
func (g *groups) withField(i, field int, f func(v *pmda.Value, r record)) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		if r := g.record(v.Data().(*group), i); r.has(field) {
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
		v.SetString(v.Data().(*group).container)
		return nil
	}
}

// oneNumber is the format of a file with one number, oneText that of a file with
// one text.
func oneNumber(file string) format { return format{file: file, fields: 1, parse: parseWords} }

func oneText(file string) format { return format{file: file, fields: 1, parse: parseText} }
