package routes

import (
	"slices"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// A Table finds agents by domain, and a Table made from it leaves it as it was.
func TestTable(t *testing.T) {
	set := new(agentset.Set)
	agent := func(domain int) *agentset.Agent { return set.NewAgent(&pmcdconf.Agent{Domain: domain}) }
	a, b, c := agent(2), agent(Domains-2), agent(3)
	names, newNames := new(pmnsload.Tree), new(pmnsload.Tree)
	first := New([]*agentset.Agent{b, a}, names)
	check := func(name string, table *Table, tree *pmnsload.Tree, list ...*agentset.Agent) {
		t.Helper()
		if !slices.Equal(table.Agents(), list) || table.Tree() != tree {
			t.Errorf("%s: other agents or names than expected", name)
		}
		for domain := -1; domain <= Domains; domain++ {
			var want *agentset.Agent
			if i := slices.IndexFunc(list, func(a *agentset.Agent) bool { return a.Domain == domain }); i >= 0 {
				want = list[i]
			}
			if got := table.Agent(domain); got != want {
				t.Errorf("%s: domain %d has another agent than expected", name, domain)
			}
		}
	}
	check("other names", first.WithTree(newNames), newNames, b, a)
	check("other agents", first.WithAgents([]*agentset.Agent{c}), names, c)
	check("the first", first, names, b, a)
}
