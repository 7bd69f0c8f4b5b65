// Plugin makes package root a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	root  1  dso  root_init  /usr/local/lib/pcp/pmda_root.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/root"
)

// RootInit is the entry point root_init.
func RootInit(domain int) (agents.Agent, error) { return root.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return root.New(domain) }

func main() {} // is not called
