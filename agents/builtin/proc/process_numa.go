package proc

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// Fields of the record of numa_maps: kinds of mappings.
const (
	numaHuge = iota
	numaHeap
	numaStack
	numaPrivate
	numNUMAFields
)

// maxNUMAMaps is the size of the largest numa_maps that is read, in bytes. It has a
// line of about 100 bytes for each mapping, of which a process may have 65,530. A
// process with a larger file has no values.
const maxNUMAMaps = 16 << 20

// nodeMemory is the memory of a process on a NUMA node, in KiB, by kind of mapping.
type nodeMemory struct {
	node uint64
	kib  [numNUMAFields]uint64
}

// readNUMA sums the lines of numa_maps, numa(7), by node and kind of mapping:
//
//	558bbba20000 default heap anon=4 dirty=4 active=0 N0=3 N1=1 kernelpagesize_kB=4
//
// Before Linux 4.0 there is no size at the end. Values are texts with the memory on all nodes in
// MiB: "node0:0.01,node1:0.00".
//
// C differs: it takes all huge pages to have the default size, and all others that of
// the host.
func readNUMA(p *process, r record) error {
	nodes, huge := p.tree.nodes[:0], p.tree.hugeKiB()
	err := p.path("numa_maps").Lines(maxNUMAMaps, func(line []byte) error {
		if line == nil {
			return syscall.EFBIG
		}
		nodes = addMapping(nodes, line, p.tree.pageSize/1024, huge)
		return p.tree.ended()
	})
	p.tree.nodes = nodes
	if errors.Is(err, syscall.EFBIG) || err == nil && len(nodes) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, func(a, b nodeMemory) int { return cmp.Compare(a.node, b.node) })
	var scratch [256]byte
	text := scratch[:0]
	for field := range numNUMAFields {
		text = text[:0]
		for i := range nodes {
			if i > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendUint(append(text, "node"...), nodes[i].node, 10)
			text = strconv.AppendFloat(append(text, ':'), float64(nodes[i].kib[field])/1024, 'f', 2, 64)
		}
		r.setText(field, text)
	}
	r.state[r.row] = filled
	return nil
}

// hugeKiB returns the default size of huge pages, or that of others if there are none. It does
// not change while the host runs.
func (t *tree) hugeKiB() uint64 {
	if t.hugePageKiB == 0 {
		t.hugePageKiB = t.pageSize / 1024
		_ = t.Path("/proc/meminfo").Lines(maxFile, func(line []byte) error {
			name, rest := sysfile.Field(line)
			if size, _ := sysfile.Field(rest); string(name) == "Hugepagesize:" {
				if n, ok := sysfile.Uint(size); ok {
					t.hugePageKiB = n
				}
			}
			return nil
		})
	}
	return t.hugePageKiB
}

// addMapping adds the memory of a line to that of its nodes. pageKiB and hugeKiB are the sizes of
// pages if the line does not say.
func addMapping(nodes []nodeMemory, line []byte, pageKiB, hugeKiB uint64) []nodeMemory {
	kind := numaPrivate
	for rest := line; len(rest) > 0; {
		var word []byte
		word, rest = sysfile.Field(rest)
		switch string(word) {
		case "huge":
			kind, pageKiB = numaHuge, hugeKiB
		case "heap":
			kind = numaHeap
		case "stack":
			kind = numaStack
		}
		if bytes.HasPrefix(word, []byte("stack:")) { // of a thread, with Linux 3.4 to 4.4
			kind = numaStack
		}
		if size, ok := bytes.CutPrefix(word, []byte("kernelpagesize_kB=")); ok {
			if n, ok := sysfile.Uint(size); ok {
				pageKiB = n
			}
		}
	}
	for len(line) > 0 {
		var word []byte
		word, line = sysfile.Field(line)
		if len(word) < 2 || word[0] != 'N' {
			continue
		}
		name, pages, _ := bytes.Cut(word[1:], []byte{'='})
		node, isNode := sysfile.Uint(name)
		n, ok := sysfile.Uint(pages)
		if !isNode || !ok || node > maxNode {
			continue
		}
		i := slices.IndexFunc(nodes, func(m nodeMemory) bool { return m.node == node })
		if i < 0 {
			i = len(nodes)
			nodes = append(nodes, nodeMemory{node: node})
		}
		nodes[i].kib[kind] += n * pageKiB
	}
	return nodes
}

// maxNode is the highest number of a NUMA node that is accepted. The kernel has at
// most 1024.
const maxNode = 1 << 10
