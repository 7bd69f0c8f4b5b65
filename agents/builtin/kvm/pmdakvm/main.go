// Pmdakvm is package kvm as a program (PMDA(3)). In pmcd.conf it is
//
//	kvm  95  pipe  binary  /var/lib/pcp/pmdas/kvm/pmdakvm -d 95
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/kvm"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdakvm",
		Domain: 95,
		Log:    "kvm.log",
		User:   "root", // to read debugfs
		New: func(s serve.Start) (agents.Agent, error) {
			o := kvm.FromEnv()
			o.Log = s.Log
			return kvm.Open(s.Domain, o)
		},
	})
}
