package mmv

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent mmv as a program: pmdammv.
func Program() serve.Program { return program("mmv", 70) }

// PMProxyProgram returns the agent pmproxy as a program: pmdapmproxy.
func PMProxyProgram() serve.Program { return program("pmproxy", 4) }

func program(name string, domain int) serve.Program {
	return serve.Program{
		Name:   "pmda" + name,
		Domain: domain,
		Log:    name + ".log",
		New: func(s serve.Start) (agents.Agent, error) {
			return Open(s.Domain, Options{Name: name, Debug: s.Debug, Log: s.Log})
		},
	}
}
