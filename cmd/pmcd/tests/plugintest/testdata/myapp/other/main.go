// A plugin that shares another module with pmcd, too.
package main

import (
	"go.uber.org/multierr"

	"github.com/gopcp/pmcd/agents"

	"example.com/myapp"
)

func NewAgent(domain int) (agents.Agent, error) {
	a, err := myapp.New(domain)
	return a, multierr.Append(nil, err)
}

func main() {}
