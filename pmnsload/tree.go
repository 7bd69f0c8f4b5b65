package pmnsload

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A Tree is a name space. It is never written once it has been returned, so
// any number of goroutines may use it. The strings that it hands out are its
// own: they cost nothing, and keep all of it in memory. The zero Tree, and a
// nil one, is a name space without names.
//
// Nodes are in the order of a traversal, so that what is below a node is
// behind it, and as many nodes as it says. The name of a non-leaf is the first part of
// the name of the first leaf below it, and shares its text.
type Tree struct {
	text  string // names one behind the other, those of leaves as Stretch has them
	nodes []node // nodes[0] is the root, whose name is ""
	table table  // finds a node by its name
	ids   []int32
	roots []DynamicRoot
	// longest is the length of the longest name of a dynamic root.
	longest int
	whole   func() []Stretch // of all names; nil in an empty tree
}

// A node is 16 bytes: there can be a hundred thousand.
type node struct {
	off, len uint32   // of the name in Tree.text
	nodes    int32    // this one and those below it
	id       pdu.PMID // NoPMID for a non-leaf
}

func (n *node) size() int { return int(n.nodes) }

// maxNodes is one less than what a table can number.
const maxNodes = 1<<24 - 2

// A Kind tells what a name is.
type Kind int

const (
	// Unknown is no name (PM_ERR_NAME).
	Unknown Kind = iota
	// Leaf is the name of a metric.
	Leaf
	// NonLeaf is a place in the tree (PM_ERR_NONLEAF).
	NonLeaf
	// Dynamic is the name of a dynamic root or one below it, which only the
	// agent can tell about.
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

// An Entry is what a Tree knows of a name.
type Entry struct {
	Kind Kind

	// PMID is that of a Leaf; pdu.DynamicRoot(Domain) of a Dynamic one; and
	// otherwise pdu.NoPMID.
	PMID pdu.PMID

	// Domain is that of the agent if Kind is Dynamic, and otherwise 0.
	Domain int

	// Name is the full name; that of the dynamic root if Kind is Dynamic;
	// and "" for Unknown. It is the tree's own copy.
	Name string
}

// Find looks a full name up. The name "" is the root of the tree, a NonLeaf;
// to ask for its PMID is PM_ERR_NAME nonetheless, see PMID.
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

// PMID looks the PMID of a name up, which is pdu.NoPMID if the name is neither
// Leaf nor Dynamic. The name "" is Unknown.
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

// above returns the index of the dynamic root that name is below of, or -1. A
// name with an empty component is below nothing. Prefixes longer than any
// dynamic root are not looked at: a client may send a name of 64 kB of dots.
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

// Names returns all names of a metric, the one defined last in the tree
// first, as C pmcd does: clients that want one name take the first. There are
// none for a dynamic root.
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

// Children returns the last components of the names one level below name, in
// the order of the file, if name is a NonLeaf, and nil otherwise. A dynamic
// root is not a leaf here.
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

// All yields the metrics below a name, depth first in the order of the file.
// A Leaf yields itself. A dynamic root stands for all names below it, and is
// yielded as one, also if name is its name. There are none if name is Unknown
// or below a dynamic root.
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

// below returns the node called name, if there is one, and those below it.
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

// DynamicRoots returns the dynamic roots in the order of a traversal. The
// slice is the tree's.
func (t *Tree) DynamicRoots() []DynamicRoot {
	if t == nil {
		return nil
	}
	return t.roots
}

// Len reports how many names All("") yields.
func (t *Tree) Len() int {
	if t == nil {
		return 0
	}
	return len(t.ids) + len(t.roots)
}

func (t *Tree) empty() bool { return t == nil || len(t.nodes) == 0 }
