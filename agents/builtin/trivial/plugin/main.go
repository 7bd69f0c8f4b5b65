// Plugin makes package trivial a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	trivial  250  dso  trivial_init  /var/lib/pcp/pmdas/trivial/pmda_trivial.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
)

// TrivialInit is the entry point trivial_init.
func TrivialInit(domain int) (agents.Agent, error) { return trivial.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return trivial.New(domain) }

func main() {} // is not called
