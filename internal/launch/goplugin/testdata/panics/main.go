// A plugin whose init function panics.
package main

import "github.com/gopcp/pmcd/agents"

func init() { panic("no licence") }

func NewAgent(int) (agents.Agent, error) { return nil, nil }

func main() {}
