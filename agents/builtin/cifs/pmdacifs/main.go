// Pmdacifs is package cifs as a program (PMDA(3)). In pmcd.conf it is
//
//	cifs  121  pipe  binary  /usr/libexec/pcp/pmdas/pmdacifs -d 121
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/cifs"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(cifs.Program()) }
