package txmon

import (
	"errors"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdatxmon of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdatxmon",
		Domain: Domain,
		Log:    "txmon.log",
		Usage:  "[options] tx_type [...]",
		CheckArgs: func(types []string) error {
			if len(types) == 0 {
				//lint:ignore ST1005 PCP's text
				return errors.New("No transaction types specified")
			}
			return nil
		},
		New: func(s serve.Start) (agents.Agent, error) { return Open(s.Domain, s.Args) },
	}
}
