package kvm

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdakvm of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdakvm",
		Domain: 95,
		Log:    "kvm.log",
		User:   "root", // to read debugfs
		New:    func(s serve.Start) (agents.Agent, error) { return Open(s.Domain, Options{Log: s.Log}) },
	}
}
