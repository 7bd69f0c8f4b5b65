package xfs

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdaxfs of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdaxfs",
		Domain: 11,
		Log:    "xfs.log",
		User:   "root", // to read quotas and to reset statistics
		New:    func(s serve.Start) (agents.Agent, error) { return New(s.Domain) },
	}
}
