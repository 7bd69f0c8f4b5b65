// A Go plugin for the tests of goplugin.
package main

import (
	"errors"
	"runtime"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
)

// SimpleInit is what the entry simple_init finds.
func SimpleInit(domain int) (agents.Agent, error) { return &agenttest.Agent{Domain: domain}, nil }

// OtherInit is not of the type that is wanted.
func OtherInit() {}

// Entries that do not make an agent.

func FailsInit(int) (agents.Agent, error)  { return nil, errors.New("no such device") }
func NoneInit(int) (agents.Agent, error)   { return nil, nil }
func ExitsInit(int) (agents.Agent, error)  { runtime.Goexit(); return nil, nil }
func PanicsInit(int) (agents.Agent, error) { panic("ouch") }

// Leave lets StuckInit return.
var Leave = make(chan struct{})

func StuckInit(domain int) (agents.Agent, error) {
	<-Leave
	return SimpleInit(domain)
}

func main() {}
