// Plugin makes package simple a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	simple  253  dso  simple_init  /var/lib/pcp/pmdas/simple/pmda_simple.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/simple"
)

// SimpleInit is the entry point simple_init.
func SimpleInit(domain int) (agents.Agent, error) { return simple.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return simple.New(domain) }

func main() {} // is not called
