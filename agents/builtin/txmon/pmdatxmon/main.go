// Pmdatxmon is package txmon as a program (PMDA(3)). In pmcd.conf it is
//
//	txmon  248  pipe  binary  /var/lib/pcp/pmdas/txmon/pmdatxmon -d 248 TYPE ...
package main

import (
	"errors"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/txmon"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdatxmon",
		Domain: txmon.Domain,
		Log:    "txmon.log",
		Usage:  "[options] tx_type [...]",
		CheckArgs: func(types []string) error {
			if len(types) == 0 {
				//lint:ignore ST1005 PCP's text
				return errors.New("No transaction types specified")
			}
			return nil
		},
		New: func(s serve.Start) (agents.Agent, error) { return txmon.Open(s.Domain, s.Args) },
	})
}
