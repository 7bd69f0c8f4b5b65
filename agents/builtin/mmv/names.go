package mmv

import (
	"maps"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A node is a node of the tree of names.
type node struct {
	name     string           // the last component
	children []*node          // clients get the last one first, as from pmdammv
	byName   map[string]*node // of children, if there are several

	leaf bool  // a metric
	file *file // of a metric; nil for control metrics
	item int   // of a metric

	// shared nodes are those of a file's tree. An index that adds nodes below one has a
	// copy of it.
	shared bool
}

// pmid returns the PMID of a metric.
func (n *node) pmid(domain int) pdu.PMID {
	if n.file == nil {
		return pdu.NewPMID(domain, 0, n.item)
	}
	return pdu.NewPMID(domain, n.file.cluster, n.item)
}

// add adds a metric below n. It reports whether it did: not if the name is used, or is that of a
// metric with names below it.
func (n *node) add(name string, item int, f *file) bool {
	return n.attach(name, &node{leaf: true, item: item, file: f})
}

// attach is add for any node. It sets the name of the new node.
func (n *node) attach(name string, c *node) bool {
	// Look first, so that a name that is refused leaves no nodes.
	m, rest := n, name
	for {
		first, more, below := strings.Cut(rest, ".")
		old := m.child(first)
		if old == nil {
			break
		}
		if !below || old.leaf {
			return false
		}
		if old.shared {
			old = m.replace(old)
		}
		m, rest = old, more
	}
	for {
		first, more, below := strings.Cut(rest, ".")
		if !below {
			if c.name == "" {
				c.name = first
			}
			m.append(c)
			return true
		}
		next := &node{name: first}
		m.append(next)
		m, rest = next, more
	}
}

// fewChildren are searched one after the other.
const fewChildren = 8

func (n *node) child(name string) *node {
	if n.byName != nil {
		return n.byName[name]
	}
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// append adds a child.
func (n *node) append(c *node) {
	n.children = append(n.children, c)
	switch {
	case n.byName != nil:
		n.byName[c.name] = c
	case len(n.children) > fewChildren:
		n.byName = make(map[string]*node, 4*fewChildren)
		for _, c := range n.children {
			n.byName[c.name] = c
		}
	}
}

// replace replaces a child that is shared by a copy, and returns that.
func (n *node) replace(old *node) *node {
	c := *old
	c.children, c.byName, c.shared = slices.Clone(old.children), maps.Clone(old.byName), false
	n.children[slices.Index(n.children, old)] = &c
	if n.byName != nil {
		n.byName[c.name] = &c
	}
	return &c
}

// nodeCost is about how many bytes a node takes, without its name.
const nodeCost = 96

// share marks n and all nodes below it as shared, and returns their number.
func (n *node) share() (nodes int) {
	n.shared = true
	nodes = 1
	for _, c := range n.children {
		nodes += c.share()
	}
	return nodes
}

// find returns the node with a full name. n has the names of the highest level. It
// returns nil if there is none.
func (n *node) find(name string) *node {
	for n != nil {
		first, rest, below := strings.Cut(name, ".")
		n = n.child(first)
		if !below {
			return n
		}
		name = rest
	}
	return nil
}

// leaves calls yield for the names of all metrics at or below n, whose full name is name,
// until it returns an error.
func (n *node) leaves(name string, yield func(string) error) error {
	if n.leaf {
		return yield(name)
	}
	for _, c := range slices.Backward(n.children) {
		if err := c.leaves(name+"."+c.name, yield); err != nil {
			return err
		}
	}
	return nil
}
