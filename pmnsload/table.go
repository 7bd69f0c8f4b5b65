package pmnsload

import (
	"hash/maphash"
	"math/bits"
)

// A table finds nodes by their full names. A map of Go would hold each name a
// second time, as a string of 16 bytes beside its text.
//
// A slot is 0 or a node's index with 8 more bits of its hash on top, so that
// few nodes are looked at in vain; the slots are searched from where the hash
// points on.
type table struct {
	seed  maphash.Seed
	slots []uint32 // a power of two
}

const indexBits = 24

// newTable returns a table for n nodes.
func newTable(n int) table {
	return table{maphash.MakeSeed(), make([]uint32, 1<<bits.Len(uint(n+n/2)))}
}

// find returns the index of the node of t called name, or -1.
func (b *table) find(t *Tree, name string) int32 {
	if len(b.slots) == 0 {
		return -1
	}
	i, _ := b.slot(t.nodes, t.text, name)
	return int32(b.slots[i]&(1<<indexBits-1)) - 1
}

// slot returns the slot that name is in, or belongs into, with the bits that
// go on top.
func (b *table) slot(nodes []node, text, name string) (i, tag uint32) {
	h := maphash.String(b.seed, name)
	mask := uint32(len(b.slots) - 1)
	tag = uint32(h>>56) << indexBits
	for i = uint32(h) & mask; ; i = (i + 1) & mask {
		s := b.slots[i]
		if s == 0 {
			return i, tag
		}
		if s&^(1<<indexBits-1) != tag {
			continue
		}
		n := &nodes[s&(1<<indexBits-1)-1]
		if text[n.off:n.off+n.len] == name {
			return i, tag
		}
	}
}
