package pmimport

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as a program. PCP has it as a shared object only.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdapmimport",
		Domain: 43,
		Log:    "pmimport.log",
		New:    func(s serve.Start) (agents.Agent, error) { return Open(s.Domain, Options{Log: s.Log}) },
	}
}
