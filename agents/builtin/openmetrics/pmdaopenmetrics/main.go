// Pmdaopenmetrics is package openmetrics as a program (PMDA(3)). In pmcd.conf it is
//
//	openmetrics  144  pipe  binary notready  /usr/libexec/pcp/pmdas/pmdaopenmetrics -d 144
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/openmetrics"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(openmetrics.Program()) }
