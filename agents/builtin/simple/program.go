package simple

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdasimple of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdasimple",
		Domain: Domain,
		Log:    "simple.log",
		New:    func(s serve.Start) (agents.Agent, error) { return New(s.Domain) },
	}
}
