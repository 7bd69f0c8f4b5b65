// Pmdasimple is package simple as a program (PMDA(3)). In pmcd.conf it is
//
//	simple  253  pipe  binary  /var/lib/pcp/pmdas/simple/pmdasimple -d 253
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/simple"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdasimple",
		Domain: simple.Domain,
		Log:    "simple.log",
		New:    func(s serve.Start) (agents.Agent, error) { return simple.New(s.Domain) },
	})
}
