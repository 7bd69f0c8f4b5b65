package pmnsload

import (
	"hash/maphash"
	"math/bits"
)

// A table finds nodes by their full names. It is a hash table with linear probing. A
// map of Go would need 16 bytes more for each name, for the string in the map.
//
// A slot is 0, or the index of a node plus 1 with 8 bits of its hash as the highest byte.
// These bits make it unlikely that the names of other nodes have to be compared.
type table struct {
	seed  maphash.Seed
	slots []uint32 // their number is a power of two
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

// slot returns the index of the slot for name, and the hash bits for its highest byte.
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
