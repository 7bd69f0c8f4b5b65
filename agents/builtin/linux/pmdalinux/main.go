// Pmdalinux is package linux as a program (PMDA(3)). In pmcd.conf it is
//
//	linux  60  pipe  binary  /var/lib/pcp/pmdas/linux/pmdalinux -d 60
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/linux"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(linux.Program()) }
