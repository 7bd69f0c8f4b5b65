// Pmdajbd2 is package jbd2 as a program (PMDA(3)). In pmcd.conf it is
//
//	jbd2  122  pipe  binary  /var/lib/pcp/pmdas/jbd2/pmdajbd2 -d 122
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/jbd2"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	var o jbd2.Options
	serve.Main(serve.Program{
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
			return jbd2.Open(s.Domain, o)
		},
	})
}
