// Plugin makes package jbd2 a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	jbd2  122  dso  jbd2_init  /usr/local/lib/pcp/pmda_jbd2.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/jbd2"
)

// Jbd2Init is the entry point jbd2_init.
func Jbd2Init(domain int) (agents.Agent, error) { return jbd2.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return jbd2.New(domain) }

func main() {} // is not called
