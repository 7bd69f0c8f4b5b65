// Pmdanfsclient is package nfsclient as a program (PMDA(3)). In pmcd.conf it is
//
//	nfsclient  62  pipe  binary  /usr/libexec/pcp/pmdas/pmdanfsclient -d 62
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/nfsclient"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(nfsclient.Program()) }
