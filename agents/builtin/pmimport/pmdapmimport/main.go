// Pmdapmimport is package pmimport as a program (PMDA(3)). In pmcd.conf it is
//
//	pmimport  43  pipe  binary  /usr/libexec/pcp/pmdas/pmdapmimport -d 43
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/pmimport"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(pmimport.Program()) }
