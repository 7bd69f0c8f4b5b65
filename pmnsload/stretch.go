package pmnsload

import "github.com/gopcp/pmcd/pdu"

// A Stretch holds the names of consecutive metrics of a traversal in the wire form
// of a PMNS_NAMES PDU (pdu.PMNSNames): for each name its length, in a 32-bit word,
// and its bytes, padded to whole words with '~'.
type Stretch struct {
	Wire  string // shares the tree's memory
	Names int
	Bytes int // in the names, without lengths and padding

	// Root is the dynamic root after the names, or nil. It is nil only in the
	// last Stretch and where the tree has non-leaves with nothing below them.
	Root *DynamicRoot
}

// Stretches returns the names that All yields, in wire form. The caller must not
// change the slice: that of all names belongs to the tree, which makes it at the
// first call.
func (t *Tree) Stretches(name string) []Stretch {
	if name == "" && !t.empty() {
		return t.whole()
	}
	return t.stretches(name)
}

func (t *Tree) stretches(name string) (list []Stretch) {
	var s Stretch
	var from, to uint32 // s.Wire in t.text
	for _, n := range t.below(name) {
		if n.id == pdu.NoPMID {
			continue
		}
		dynamic := n.id.IsDynamicRoot()
		if dynamic || n.off-4 != to {
			s.Wire = t.text[from:to]
			if dynamic {
				s.Root = &DynamicRoot{t.name(&n), n.id.DynamicDomain()}
			}
			if dynamic || s.Names > 0 {
				list = append(list, s)
			}
			s, from, to = Stretch{}, n.off-4, n.off-4
		}
		if !dynamic {
			s.Names++
			s.Bytes += int(n.len)
			to = n.off + (n.len+3)&^3
		}
	}
	if s.Names > 0 {
		s.Wire = t.text[from:to]
		list = append(list, s)
	}
	return list
}
