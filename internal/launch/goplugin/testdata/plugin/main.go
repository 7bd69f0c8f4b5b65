// A Go plugin for the tests of goplugin.
package main

import (
	"errors"
	"runtime"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
)

// SimpleInit is the entry simple_init.
func SimpleInit(domain int) (agents.Agent, error) { return &transporttest.Agent{Domain: domain}, nil }

// OtherInit has a type that entries must not have.
func OtherInit() {}

// Entries that make no agent.

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
