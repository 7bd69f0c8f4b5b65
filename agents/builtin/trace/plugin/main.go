// Plugin makes package trace a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	trace  10  dso  trace_init  /usr/local/lib/pcp/pmda_trace.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/trace"
)

// TraceInit is the entry point trace_init.
func TraceInit(domain int) (agents.Agent, error) { return trace.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return trace.New(domain) }

func main() {} // is not called
