package trivial

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdatrivial of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdatrivial",
		Domain: Domain,
		Log:    "trivial.log",
		New:    func(s serve.Start) (agents.Agent, error) { return New(s.Domain) },
	}
}
