package jbd2

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdajbd2 of PCP.
func Program() serve.Program {
	var o Options
	return serve.Program{
		Name:   "pmdajbd2",
		Domain: 122,
		Log:    "jbd2.log",
		Options: []serve.Option{
			{Short: 'j', Arg: "PATH", Text: "path to stats files (default \"/proc/fs/jbd2\")", Set: func(dir string) error {
				o.Dir = dir
				return nil
			}},
		},
		New: func(s serve.Start) (agents.Agent, error) {
			o.Log = s.Log
			return Open(s.Domain, o)
		},
	}
}
