package nfsclient

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as a program, in place of PCP's pmdanfsclient.python.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdanfsclient",
		Domain: 62,
		Log:    "nfsclient.log",
		User:   "root", // to read mountstats
		New:    func(s serve.Start) (agents.Agent, error) { return Open(s.Domain, Options{Log: s.Log}) },
	}
}
