// Pmdajbd2 is package jbd2 as a program (PMDA(3)). In pmcd.conf it is
//
//	jbd2  122  pipe  binary  /var/lib/pcp/pmdas/jbd2/pmdajbd2 -d 122
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/jbd2"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(jbd2.Program()) }
