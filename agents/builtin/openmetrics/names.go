package openmetrics

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A tree has the names of all metrics. The zero value is empty. Names are never removed.
type tree struct{ nodes map[string]*node } // by full name

type node struct {
	id       pdu.PMID // NoPMID if it is not a metric
	children []string // the last components; clients get the last one first, as from PCP's agent
}

// add adds the name of a metric.
func (t *tree) add(name string, id pdu.PMID) error {
	if len(name) > maxName || strings.Count(name, ".") >= maxDepth {
		return fmt.Errorf("its name has more than %d bytes or %d parts", maxName, maxDepth)
	}
	if t.nodes == nil {
		t.nodes = make(map[string]*node)
	}
	for c := range strings.SplitSeq(name, ".") {
		if !validName("a"+c) || c == "" || strings.Contains(c, ":") { // it may begin with a digit, as in job:rate:5m
			return fmt.Errorf("%.200q is not a name of PCP", name)
		}
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

// leaves appends the names of all metrics at or below name.
func (t *tree) leaves(list []string, name string) []string {
	n := t.nodes[name]
	if n.id != pdu.NoPMID {
		return append(list, name)
	}
	for _, c := range slices.Backward(n.children) {
		list = t.leaves(list, name+"."+c)
	}
	return list
}
