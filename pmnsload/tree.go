package pmnsload

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A Tree is a name space. It is immutable and safe for concurrent use. The strings
// that its methods return share the memory of the tree: they are not copied, and
// any of them keeps the whole tree in memory. The zero Tree and a nil *Tree are
// name spaces without names.
type Tree struct {
	text string // all names; those of leaves in the form of Stretch.Wire
	// nodes are in the order of a traversal: the nodes below a node follow it.
	// nodes[0] is the root, with the name "". The name of a non-leaf is the first
	// part of the name of the first leaf below it, and shares its text.
	nodes []node
	table table // finds a node by its name
	ids   []int32
	roots []DynamicRoot // in the order of a traversal
	// longest is the length of the longest name of a dynamic root.
	longest int
	whole   func() []Stretch // of all names; nil in an empty tree
}

// A node has 16 bytes, because a tree may have a hundred thousand nodes.
type node struct {
	off, len uint32   // of the name in Tree.text
	nodes    int32    // this one and those below it
	id       pdu.PMID // NoPMID for a non-leaf
}

func (n *node) size() int { return int(n.nodes) }

// maxNodes is one less than the largest index in a table.
const maxNodes = 1<<24 - 2

// A Kind is the kind of a name.
type Kind int

const (
	// Unknown is a string that is not a name (PM_ERR_NAME).
	Unknown Kind = iota
	// Leaf is the name of a metric.
	Leaf
	// NonLeaf is a name with names below it (PM_ERR_NONLEAF).
	NonLeaf
	// Dynamic is the name of a dynamic root or a name below one, which only
	// the agent knows.
	Dynamic
)

// String returns the name of the constant.
func (k Kind) String() string {
	switch k {
	case Unknown:
		return "Unknown"
	case Leaf:
		return "Leaf"
	case NonLeaf:
		return "NonLeaf"
	case Dynamic:
		return "Dynamic"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// An Entry describes a name.
type Entry struct {
	Kind Kind

	// PMID is the PMID of a Leaf, pdu.DynamicRoot(Domain) of a Dynamic name,
	// and otherwise pdu.NoPMID.
	PMID pdu.PMID

	// Domain is the domain of the agent if Kind is Dynamic, and otherwise 0.
	Domain int

	// Name is the full name. If Kind is Dynamic, it is the name of the dynamic
	// root; if Kind is Unknown, it is "". It shares the tree's memory.
	Name string
}

// Find looks up a full name. The name "" is the root of the tree, a NonLeaf. PMID
// differs: its result for "" is Unknown.
func (t *Tree) Find(name string) Entry {
	if t.empty() {
		if name == "" {
			return Entry{Kind: NonLeaf, PMID: pdu.NoPMID}
		}
		return Entry{PMID: pdu.NoPMID}
	}
	i := t.find(name)
	if i < 0 {
		if i = t.above(name); i < 0 {
			return Entry{PMID: pdu.NoPMID}
		}
	}
	return t.entry(&t.nodes[i])
}

// PMID looks up the PMID of a name. It is pdu.NoPMID if the name is neither Leaf
// nor Dynamic. The name "" is Unknown, because pmcd replies to a request for its
// PMID with PM_ERR_NAME.
func (t *Tree) PMID(name string) (pdu.PMID, Kind) {
	if name == "" || t.empty() {
		return pdu.NoPMID, Unknown
	}
	i := t.find(name)
	if i < 0 {
		if i = t.above(name); i < 0 {
			return pdu.NoPMID, Unknown
		}
	}
	n := &t.nodes[i]
	return n.id, n.kind()
}

func (t *Tree) entry(n *node) Entry {
	e := Entry{Kind: n.kind(), PMID: n.id, Name: t.name(n)}
	if e.Kind == Dynamic {
		e.Domain = n.id.DynamicDomain()
	}
	return e
}

func (n *node) kind() Kind {
	switch {
	case n.id == pdu.NoPMID:
		return NonLeaf
	case n.id.IsDynamicRoot():
		return Dynamic
	}
	return Leaf
}

// find returns the index of the node with a name, or -1.
func (t *Tree) find(name string) int32 {
	if name == "" {
		return 0
	}
	return t.table.find(t, name)
}

// above returns the index of the dynamic root above name, or -1. A name with an
// empty component has none. Prefixes longer than the longest dynamic root are
// skipped: a client may send a name of 64 kB of dots.
func (t *Tree) above(name string) int32 {
	for k := 0; k <= t.longest && k < len(name); k++ {
		if name[k] != '.' {
			continue
		}
		i := t.find(name[:k])
		if i <= 0 {
			return -1
		}
		if t.nodes[i].kind() == Dynamic {
			if strings.HasSuffix(name, ".") || strings.Contains(name[k:], "..") {
				return -1
			}
			return i
		}
	}
	return -1
}

func (t *Tree) name(n *node) string { return t.text[n.off : n.off+n.len] }

// Names returns all names of a metric. As with C pmcd, the name defined last in
// the tree is the first: clients that want one name take the first. A dynamic root
// has none.
func (t *Tree) Names(id pdu.PMID) []string {
	if t.empty() {
		return nil
	}
	from, ok := slices.BinarySearchFunc(t.ids, id, func(i int32, id pdu.PMID) int {
		return cmp.Compare(t.nodes[i].id, id)
	})
	if !ok {
		return nil
	}
	to := from + 1
	for to < len(t.ids) && t.nodes[t.ids[to]].id == id {
		to++
	}
	names := make([]string, 0, to-from)
	for _, i := range t.ids[from:to] {
		names = append(names, t.name(&t.nodes[i]))
	}
	return names
}

// Children returns the last components of the names one level below a NonLeaf, in
// the order of the file. For other names it returns nil. A dynamic root is not a
// leaf here.
func (t *Tree) Children(name string) []pdu.Child {
	below := t.below(name)
	if len(below) == 0 || below[0].id != pdu.NoPMID {
		return nil
	}
	n := 0
	for i := 1; i < len(below); i += below[i].size() {
		n++
	}
	children := make([]pdu.Child, 0, n)
	for i := 1; i < len(below); i += below[i].size() {
		full := t.name(&below[i])
		children = append(children, pdu.Child{
			Name: full[strings.LastIndexByte(full, '.')+1:],
			Leaf: below[i].kind() == Leaf,
		})
	}
	return children
}

// All yields the metrics below a name, depth first in the order of the file. For a
// Leaf it yields the leaf itself. It yields a dynamic root as one Entry, which
// stands for all names below it, also if name is the name of the root. If name is
// Unknown or below a dynamic root, All yields nothing.
func (t *Tree) All(name string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		below := t.below(name)
		for i := range below {
			if n := &below[i]; n.id != pdu.NoPMID && !yield(t.entry(n)) {
				return
			}
		}
	}
}

// below returns the node with a name, if there is one, and the nodes below it.
func (t *Tree) below(name string) []node {
	if t.empty() {
		return nil
	}
	i := t.find(name)
	if i < 0 {
		return nil
	}
	return t.nodes[i:][:t.nodes[i].size()]
}

// A DynamicRoot is a name with the PMID D:*:*.
type DynamicRoot struct {
	Name   string
	Domain int // of the agent
}

// Len returns the number of names that All("") yields.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return len(t.ids) + len(t.roots)
}

func (t *Tree) empty() bool { return t == nil || len(t.nodes) == 0 }
