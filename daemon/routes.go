package daemon

import (
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pmnsload"
)

// domains is the number of domains a PMID can name. The last is not an
// agent's: it marks dynamic roots and derived metrics.
const domains = 512

// routes says where requests go. It is never changed once it is published: a
// request loads it once and uses it to its end.
type routes struct {
	agents [domains]*agentset.Agent
	list   []*agentset.Agent // in the order of pmcd.conf
	tree   *pmnsload.Tree
}

// newRoutes returns routes to list.
func newRoutes(list []*agentset.Agent, tree *pmnsload.Tree) *routes {
	r := &routes{list: list, tree: tree}
	for _, a := range list {
		r.agents[a.Domain] = a
	}
	return r
}

// agent returns the agent of a domain, or nil.
func (r *routes) agent(domain int) *agentset.Agent {
	if domain < 0 || domain >= domains-1 {
		return nil
	}
	return r.agents[domain]
}
