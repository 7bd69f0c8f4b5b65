package main

import (
	"fmt"
	"runtime/debug"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/linux"
	"github.com/gopcp/pmcd/agents/linuxproc"
	"github.com/gopcp/pmcd/agents/simple"
	"github.com/gopcp/pmcd/agents/trivial"
	"github.com/gopcp/pmcd/agents/txmon"
)

// builtinAgents are agents that are compiled in, by the entry point that a dso
// line names. A constructor waits for nothing.
type builtinAgents map[string]func(domain int) (agents.Agent, error)

// builtin is used for a dso line whose file does not exist. There is one more,
// pmcd_init: it needs the daemon's memory, so the daemon has it.
var builtin = builtinAgents{
	"linux_init":   linux.New,
	"proc_init":    linuxproc.New,
	"simple_init":  simple.New,
	"trivial_init": trivial.New,
	"txmon_init":   txmon.New,
}

// construct calls newAgent. A panic costs that agent only.
func construct(newAgent func(domain int) (agents.Agent, error), domain int) (a agents.Agent, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = nil, fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return newAgent(domain)
}
