// Package nametree has the names of metrics that an agent makes while it runs.
package nametree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A Tree has names. The zero value is empty.
type Tree struct{ nodes map[string]*node } // by full name

type node struct {
	id       pdu.PMID // NoPMID if it is not a metric
	children []string // the last components
}

// Add adds the name of a metric and its ancestors. After an error, the tree is as before.
func (t *Tree) Add(name string, id pdu.PMID) error {
	if t.nodes == nil {
		t.nodes = make(map[string]*node)
	}
	if slices.Contains(strings.Split(name, "."), "") {
		return fmt.Errorf("%q is not a valid name", name)
	}
	if n := t.nodes[name]; n != nil {
		if n.id != pdu.NoPMID {
			return fmt.Errorf("another metric has the name %s", name)
		}
		return fmt.Errorf("there are names below %s", name)
	}
	for i := range name {
		if name[i] == '.' {
			if n := t.nodes[name[:i]]; n != nil && n.id != pdu.NoPMID {
				return fmt.Errorf("%s is a metric", name[:i])
			}
		}
	}
	t.nodes[name] = &node{id: id}
	for {
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return nil
		}
		last := name[i+1:]
		name = name[:i]
		n := t.nodes[name]
		known := n != nil
		if !known {
			n = &node{id: pdu.NoPMID}
			t.nodes[name] = n
		}
		n.children = append(n.children, last)
		if known {
			return nil
		}
	}
}

// Remove removes the name of a metric, and those of its ancestors that have no other names below them.
func (t *Tree) Remove(name string) {
	if n := t.nodes[name]; n == nil || n.id == pdu.NoPMID {
		return
	}
	for {
		delete(t.nodes, name)
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return
		}
		last := name[i+1:]
		name = name[:i]
		n := t.nodes[name]
		n.children = slices.DeleteFunc(n.children, func(c string) bool { return c == last })
		if len(n.children) > 0 {
			return
		}
	}
}

// PMID returns the PMID of a metric. The error is PM_ERR_NAME, also for a name that has names
// below it.
func (t *Tree) PMID(name string) (pdu.PMID, error) {
	if n := t.nodes[name]; n != nil && n.id != pdu.NoPMID {
		return n.id, nil
	}
	return pdu.NoPMID, pdu.ErrnoName
}

// Children returns the names directly below name, in the order in which they were added. The error
// is PM_ERR_NAME, or that of ended, which is called for each name.
func (t *Tree) Children(name string, ended func() error) ([]pdu.Child, error) {
	n := t.nodes[name]
	if n == nil {
		return nil, pdu.ErrnoName
	}
	list := make([]pdu.Child, len(n.children))
	for i, c := range n.children {
		if err := ended(); err != nil {
			return nil, err
		}
		list[i] = pdu.Child{Name: c, Leaf: t.nodes[name+"."+c].id != pdu.NoPMID}
	}
	return list, nil
}

// Leaves returns the names of all metrics at or below name, those of a child in the place of the
// child. The error is PM_ERR_NAME, or that of ended, which is called for each name.
func (t *Tree) Leaves(name string, ended func() error) ([]string, error) {
	if t.nodes[name] == nil {
		return nil, pdu.ErrnoName
	}
	return t.leaves(nil, name, ended)
}

func (t *Tree) leaves(list []string, name string, ended func() error) ([]string, error) {
	n := t.nodes[name]
	if n.id != pdu.NoPMID {
		return append(list, name), nil
	}
	for _, c := range n.children {
		err := ended()
		if err == nil {
			list, err = t.leaves(list, name+"."+c, ended)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
