// Package routes maps domains to agents, and names of metrics to PMIDs. A reload publishes
// a new [Table]. A request loads the Table at its beginning, and again if a reload has replaced
// an agent that it needs.
package routes

import (
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pmnsload"
)

// Domains is the number of domains that a PMID can have. The last one has no agent: it
// marks dynamic roots and derived metrics.
const Domains = 512

// A Table has the agents and the names at one time. It is never changed, but the state of
// the agents in it changes.
type Table struct {
	byDomain [Domains]*agentset.Agent
	list     []*agentset.Agent
	tree     *pmnsload.Tree
}

// New returns a Table of the agents in list, which are in the order of pmcd.conf.
// Tree may be nil until names are read.
func New(list []*agentset.Agent, tree *pmnsload.Tree) *Table {
	t := &Table{list: list, tree: tree}
	for _, a := range list {
		t.byDomain[a.Domain] = a
	}
	return t
}

// WithTree returns a Table with the same agents and other names.
func (t *Table) WithTree(tree *pmnsload.Tree) *Table {
	u := *t
	u.tree = tree
	return &u
}

// WithAgents returns a Table with other agents and the same names.
func (t *Table) WithAgents(list []*agentset.Agent) *Table { return New(list, t.tree) }

// Agent returns the agent of a domain; nil if there is none.
func (t *Table) Agent(domain int) *agentset.Agent {
	if domain < 0 || domain >= Domains-1 {
		return nil
	}
	return t.byDomain[domain]
}

// Agents returns all agents, in the order of pmcd.conf. The caller must not change
// the slice.
func (t *Table) Agents() []*agentset.Agent { return t.list }

// Tree returns the name space; nil until it is read.
func (t *Table) Tree() *pmnsload.Tree { return t.tree }
