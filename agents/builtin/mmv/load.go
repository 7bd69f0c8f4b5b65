package mmv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// A loader makes a file of an image.
type loader struct {
	image
	*file
	prefix   string // of the names of metrics, with a dot
	problems problems
	// work is how many bytes of entries may be read. The sections of a valid file do
	// not overlap. Without this limit, many sections or instance domains could claim the
	// same bytes.
	work     int
	sections []mmvformat.Section // of metrics, as far as they are in the file
	offsets  []uint64            // of metrics
	err      error               // of the context
	n        int
	ctx      context.Context
}

// Problems are what is wrong with a file: of each kind the number, and the first one.
type problems []problem

type problem struct {
	what   string
	reason string // a format, so that it is the same for other numbers
	first  string
	n      int
}

// add adds a problem.
func (p *problems) add(what, reason string, args ...any) {
	i := slices.IndexFunc(*p, func(p problem) bool { return p.what == what && p.reason == reason })
	if i < 0 {
		i = len(*p)
		*p = append(*p, problem{what, reason, fmt.Sprintf(reason, args...), 0})
	}
	(*p)[i].n++
}

func (p problem) Error() string {
	if p.n == 1 {
		return fmt.Sprintf("%s: %s", p.what, p.first)
	}
	return fmt.Sprintf("%s, %d times: %s", p.what, p.n, p.first)
}

// checkHeader decodes the header in b, the beginning of a file with size bytes. The
// error says why the file is not accepted. A file whose header is not complete has no
// error.
func checkHeader(b []byte, size int64) (h mmvformat.Header, err error) {
	if size < mmvformat.HeaderSize {
		return h, fmt.Errorf("it has %d bytes, which are too few for a header", size)
	}
	h = decodeHeader(b)
	toc := (size - mmvformat.HeaderSize) / mmvformat.SectionSize
	switch {
	case string(h.Magic[:]) != mmvformat.Magic:
		// Without its bytes: a link can lead to any file that this process may read.
		return h, errors.New("it is not an MMV file: it begins with something else")
	case h.Version < mmvformat.Version1 || h.Version > mmvformat.Version3:
		return h, fmt.Errorf("version %d is not 1, 2 or 3", h.Version)
	case !complete(&h):
		return h, nil
	case h.Sections < 2 || int64(h.Sections) > toc:
		return h, fmt.Errorf("it cannot have %d sections", h.Sections)
	case h.Cluster < 0 || h.Cluster > mmvformat.MaxCluster:
		return h, fmt.Errorf("cluster %d is not in 0 to %d", h.Cluster, mmvformat.MaxCluster)
	case size > maxRead:
		return h, fmt.Errorf("it has %d bytes, and more than %d are not read", size, maxRead)
	}
	return h, nil
}

// load makes the contents of f, of which name, path, id, size, raw and header are set,
// from its image. The error is that of the context: a file that checkHeader accepts
// is accepted, without the parts that are wrong.
func load(ctx context.Context, f *file, b image, agentName string) (problems, error) {
	l := loader{image: b, file: f, prefix: agentName + ".", work: 2 * len(b), ctx: ctx}
	if f.header.Flags&mmvformat.FlagNoPrefix == 0 {
		l.prefix += f.name + "."
	}
	f.memory = 512 + len(f.name)
	var values, labels *mmvformat.Section
	for i := range uint64(f.header.Sections) {
		s := section(b[mmvformat.HeaderSize+i*mmvformat.SectionSize:])
		size := entrySize(s.Type, f.header.Version)
		switch {
		case s.Type == mmvformat.Instances, s.Type == mmvformat.Strings:
			continue // what they have is found by offsets
		case size == 0:
			l.problems.add("ignoring a section", "its type is %d", s.Type)
			continue
		case s.Count < 0 || l.at(s.Offset, uint64(s.Count)*size) == nil:
			l.problems.add("ignoring a section", "%d entries of type %d at %d are not in the file", s.Count, s.Type, s.Offset)
			continue
		case s.Type == mmvformat.Labels && s.Count > mmvformat.MaxLabels:
			l.problems.add("ignoring a section", "it has %d labels, more than %d", s.Count, mmvformat.MaxLabels)
			continue
		case s.Type == mmvformat.Metrics && len(l.sections) == maxMetricSections:
			l.problems.add("ignoring a section", "there are more than %d sections of metrics", maxMetricSections)
			continue
		case !l.spend(int(uint64(s.Count) * size)):
			l.problems.add("ignoring a section", "sections overlap")
			continue
		}
		switch s.Type {
		case mmvformat.InDoms:
			l.loadInDoms(s)
		case mmvformat.Metrics:
			l.loadMetrics(s)
		case mmvformat.Values:
			values = &s // the last one counts, as with labels
		case mmvformat.Labels:
			labels = &s
		}
	}
	if values != nil {
		l.loadValues(*values)
	}
	if labels != nil {
		l.loadLabels(*labels)
	}
	f.makeTree(len(l.prefix))
	return l.problems, l.err
}

// makeTree makes the tree of names of a file whose names begin with its own. prefix is the length
// of what the metrics' names have in common.
func (f *file) makeTree(prefix int) {
	if f.header.Flags&mmvformat.FlagNoPrefix != 0 || len(f.metrics) == 0 {
		return
	}
	f.tree = &node{name: f.name[strings.LastIndexByte(f.name, '.')+1:]}
	for i := range f.metrics {
		m := &f.metrics[i]
		m.own = f.tree.add(m.name[prefix:], m.item, f)
	}
	f.memory += nodeCost * f.tree.share()
}

// entrySize returns the size of an entry of a section, or 0 for an unknown type.
func entrySize(t mmvformat.SectionType, version int32) uint64 {
	switch t {
	case mmvformat.InDoms:
		return mmvformat.InDomSize
	case mmvformat.Instances:
		if version == mmvformat.Version1 {
			return mmvformat.InstanceV1Size
		}
		return mmvformat.InstanceV2Size
	case mmvformat.Metrics:
		if version == mmvformat.Version1 {
			return mmvformat.MetricV1Size
		}
		return mmvformat.MetricV2Size
	case mmvformat.Values:
		return mmvformat.ValueSize
	case mmvformat.Strings:
		return mmvformat.StringSize
	case mmvformat.Labels:
		if version == mmvformat.Version3 {
			return mmvformat.LabelSize
		}
	}
	return 0
}

func (l *loader) spend(n int) bool {
	if n > l.work {
		return false
	}
	l.work -= n
	return true
}

// stopped is called for each entry.
func (l *loader) stopped() bool {
	if l.n++; l.n%1024 == 0 && l.err == nil {
		l.err = l.ctx.Err()
	}
	return l.err != nil
}

// each calls yield for each entry of a section.
func (l *loader) each(s mmvformat.Section, yield func(off uint64, b []byte)) {
	size := entrySize(s.Type, l.header.Version)
	for i := range uint64(s.Count) {
		if l.stopped() {
			return
		}
		off := s.Offset + i*size
		yield(off, l.image[off:off+size])
	}
}
