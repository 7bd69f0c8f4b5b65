// Plugin makes package kvm a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	kvm  95  dso  kvm_init  /usr/local/lib/pcp/pmda_kvm.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/kvm"
)

// KvmInit is the entry point kvm_init.
func KvmInit(domain int) (agents.Agent, error) { return kvm.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return kvm.New(domain) }

func main() {} // is not called
