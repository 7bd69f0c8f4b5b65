// Plugin makes package proc a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	proc  3  dso  proc_init  /usr/local/lib/pcp/pmda_proc.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/proc"
)

// ProcInit is the entry point proc_init.
func ProcInit(domain int) (agents.Agent, error) { return proc.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return proc.New(domain) }

func main() {} // is not called
