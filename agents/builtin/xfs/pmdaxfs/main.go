// Pmdaxfs is package xfs as a program (PMDA(3)). In pmcd.conf it is
//
//	xfs  11  pipe  binary  /var/lib/pcp/pmdas/xfs/pmdaxfs -d 11
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/xfs"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdaxfs",
		Domain: 11,
		Log:    "xfs.log",
		User:   "root", // to read quotas and to reset statistics
		New:    func(s serve.Start) (agents.Agent, error) { return xfs.New(s.Domain) },
	})
}
