// Pmdaproc is package proc as a program (PMDA(3)), with the options of
// pmdaproc(1). In pmcd.conf it is
//
//	proc  3  pipe  binary  /var/lib/pcp/pmdas/proc/pmdaproc -d 3
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/proc"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(proc.Program()) }
