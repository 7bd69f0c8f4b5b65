package cifs

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdacifs of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdacifs",
		Domain: 121,
		Log:    "cifs.log",
		New:    func(s serve.Start) (agents.Agent, error) { return Open(s.Domain, Options{Log: s.Log}) },
	}
}
