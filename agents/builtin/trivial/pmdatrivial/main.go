// Pmdatrivial is package trivial as a program (PMDA(3)). In pmcd.conf it is
//
//	trivial  250  pipe  binary  /var/lib/pcp/pmdas/trivial/pmdatrivial -d 250
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdatrivial",
		Domain: trivial.Domain,
		Log:    "trivial.log",
		New:    func(s serve.Start) (agents.Agent, error) { return trivial.New(s.Domain) },
	})
}
