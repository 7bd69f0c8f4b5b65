// Pmdakvm is package kvm as a program (PMDA(3)). In pmcd.conf it is
//
//	kvm  95  pipe  binary  /var/lib/pcp/pmdas/kvm/pmdakvm -d 95
package main

import (
	"github.com/gopcp/pmcd/agents/builtin/kvm"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() { serve.Main(kvm.Program()) }
