package main

import (
	"github.com/gopcp/pmcd/agents"

	"example.com/myapp"
)

func NewAgent(domain int) (agents.Agent, error) { return myapp.New(domain) }

func main() {} // is not called
