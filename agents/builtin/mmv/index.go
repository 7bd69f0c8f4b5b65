package mmv

import (
	"cmp"
	"slices"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// An index finds metrics, instance domains and names in the files.
type index struct {
	files    []*file         // in the order of their names
	clusters map[int][]*file // by cluster, in that order
	indoms   map[int]*inDom  // by serial
	labeled  map[int][]*file // files with labels of an instance domain or its instances, by serial
	root     node            // of names
	metrics  int             // number of metrics, without the control metrics
}

// An inDom is an instance domain of one file or several.
type inDom struct {
	insts []pdu.Inst
	// sorted has the positions in insts in ascending order of ids. It is nil if insts
	// are in that order.
	sorted []int32
	from   []fromFile
}

// A fromFile is a file that has a part of an instance domain.
type fromFile struct {
	f *file
	d *fileInDom
}

// metric returns the first metric with a PMID that has a name, and its file.
func (x *index) metric(id pdu.PMID) (*file, *metric) {
	for _, f := range x.clusters[id.Cluster()] {
		if m := f.item(id.Item()); m != nil && m.named {
			return f, m
		}
	}
	return nil, nil
}

// serial returns the serial of the agent's instance domain for one of a file.
func serial(cluster int, ofFile uint32) int {
	return (cluster<<mmvformat.SerialBits | int(ofFile)) & maxSerial
}

// indom returns the instance domain for one of a file; 0 is none.
func (a *agent) indom(cluster int, ofFile uint32) pdu.InDom {
	if ofFile == 0 {
		return pdu.NoInDom
	}
	return pdu.NewInDom(a.domain, serial(cluster, ofFile))
}

// chooseCluster returns the cluster of a file: the one that it wants or, if that is 0, the
// lowest that is free. used are those of the files before it, whose lowest free cluster
// is not below *lowest. It returns 0 if none is free.
func chooseCluster(wanted int, used map[int]bool, lowest *int) int {
	if wanted != 0 {
		return wanted
	}
	for used[*lowest] {
		*lowest++
	}
	if *lowest > mmvformat.MaxCluster {
		return 0
	}
	return *lowest
}

// build returns the index of files, which have clusters.
func (a *agent) build(files []*file) *index {
	x := &index{
		files:    files,
		clusters: make(map[int][]*file, len(files)),
		indoms:   make(map[int]*inDom),
		labeled:  make(map[int][]*file),
	}
	for i := range controls {
		c := &controls[i]
		x.root.add(a.name+".control."+c.name, c.item, nil)
	}
	for pos, f := range files {
		f.position = pos
		x.clusters[f.cluster] = append(x.clusters[f.cluster], f)
		x.addNames(a.name, f)
		for i := range f.indoms {
			d := &f.indoms[i]
			n := serial(f.cluster, d.serial)
			if x.indoms[n] == nil {
				x.indoms[n] = new(inDom)
			}
			x.indoms[n].from = append(x.indoms[n].from, fromFile{f, d})
		}
		for i := range f.labels {
			if l := &f.labels[i]; l.Flags&(mmvformat.LabelInDom|mmvformat.LabelInstances) != 0 {
				n := serial(f.cluster, l.Identity)
				if list := x.labeled[n]; len(list) == 0 || list[len(list)-1] != f {
					x.labeled[n] = append(list, f)
				}
			}
		}
	}
	for _, d := range x.indoms {
		d.merge()
	}
	return x
}

// addNames adds the metrics of a file to the tree of names. Most files have a part of the tree of
// their own.
func (x *index) addNames(agentName string, f *file) {
	whole := f.tree != nil && x.root.attach(agentName+"."+f.name, f.tree)
	for i := range f.metrics {
		m := &f.metrics[i]
		if whole {
			m.named = m.own
		} else {
			m.named = x.root.add(m.name, m.item, f)
		}
		if m.named {
			x.metrics++
		}
	}
}

// merge sets the instances. Of several with the same id, the first counts.
func (d *inDom) merge() {
	d.insts = d.from[0].d.insts
	if len(d.from) > 1 {
		// At once: one file can have the instance domain in any number of parts.
		n := 0
		for _, from := range d.from {
			n += len(from.d.insts)
		}
		d.insts = make([]pdu.Inst, 0, n)
		for _, from := range d.from {
			d.insts = append(d.insts, from.d.insts...)
		}
	}
	if ascending(d.insts) {
		return
	}
	d.sort()
	first := slices.CompactFunc(slices.Clone(d.sorted), func(i, j int32) bool { return d.insts[i].ID == d.insts[j].ID })
	if len(first) == len(d.insts) {
		return
	}
	slices.Sort(first)
	insts := make([]pdu.Inst, len(first))
	for i, pos := range first {
		insts[i] = d.insts[pos]
	}
	d.insts = insts
	d.sort()
}

// sort sets sorted.
func (d *inDom) sort() {
	d.sorted = make([]int32, len(d.insts))
	for i := range d.sorted {
		d.sorted[i] = int32(i)
	}
	slices.SortStableFunc(d.sorted, func(i, j int32) int { return cmp.Compare(d.insts[i].ID, d.insts[j].ID) })
}

func ascending(insts []pdu.Inst) bool {
	for i := 1; i < len(insts); i++ {
		if insts[i-1].ID >= insts[i].ID {
			return false
		}
	}
	return true
}

// position returns the position of an instance.
func (d *inDom) position(id int32) (pos int, ok bool) {
	if d.sorted == nil {
		return slices.BinarySearchFunc(d.insts, id, func(inst pdu.Inst, id int32) int {
			return cmp.Compare(inst.ID, id)
		})
	}
	i, ok := slices.BinarySearchFunc(d.sorted, id, func(pos, id int32) int {
		return cmp.Compare(d.insts[pos].ID, id)
	})
	if !ok {
		return 0, false
	}
	return int(d.sorted[i]), true
}
