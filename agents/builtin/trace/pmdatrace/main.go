// Pmdatrace is package trace as a program (PMDA(3)), with the options of
// pmdatrace(1). In pmcd.conf it is
//
//	trace  10  pipe  binary  /var/lib/pcp/pmdas/trace/pmdatrace -d 10
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/trace"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(trace.Program()) }
