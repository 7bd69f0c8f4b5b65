// Pmdaxfs is package xfs as a program (PMDA(3)). In pmcd.conf it is
//
//	xfs  11  pipe  binary  /var/lib/pcp/pmdas/xfs/pmdaxfs -d 11
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/xfs"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(xfs.Program()) }
