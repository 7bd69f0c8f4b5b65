// Pmdammv is package mmv as a program (PMDA(3)). In pmcd.conf it is
//
//	mmv  70  pipe  binary  /var/lib/pcp/pmdas/mmv/pmdammv -d 70
//
// As pmdapmproxy, the name of a link to it, it is the agent pmproxy.
package main

import (
	"os"
	"path/filepath"

	"github.com/gopcp/pmcd/agents/builtin/mmv"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	if filepath.Base(os.Args[0]) == "pmdapmproxy" {
		serve.Main(mmv.PMProxyProgram())
		return
	}
	serve.Main(mmv.Program())
}
