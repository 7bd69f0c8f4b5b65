// A plugin whose init function calls runtime.Goexit.
package main

import (
	"runtime"

	"github.com/gopcp/pmcd/agents"
)

func init() { runtime.Goexit() }

func NewAgent(int) (agents.Agent, error) { return nil, nil }

func main() {}
