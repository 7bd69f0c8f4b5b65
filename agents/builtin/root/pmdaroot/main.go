// Pmdaroot is package root as a program (pmdaroot(1)). In pmcd.conf it is
//
//	root  1  pipe  binary  /var/lib/pcp/pmdas/root/pmdaroot
package main

import (
	"errors"
	"os"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/root"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	p := root.Program()
	open := p.New
	p.New = func(s serve.Start) (agents.Agent, error) {
		if os.Geteuid() != 0 {
			return nil, errors.New("must be run as root")
		}
		return open(s)
	}
	serve.Main(p)
}
