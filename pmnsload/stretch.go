package pmnsload

import "github.com/gopcp/pmcd/pdu"

// A Stretch is metrics that follow each other in a traversal, in the form that
// PMNS_NAMES has for them (pdu.PMNSNames): of each name the length, in a
// 32-bit word, and the bytes, padded to whole words with '~'.
type Stretch struct {
	Wire  string // the tree's own
	Names int
	Bytes int // of the names alone

	// Root comes behind the names; nil if there is none, which is so at the
	// end only, or where the tree has non-leaves with nothing below them.
	Root *DynamicRoot
}

// Stretches returns what All yields, in pieces that need not be put together.
// The slice must not be changed: those of all names are the tree's own, and made
// when they are asked for first.
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
