package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"

	"example.com/myapp"
)

func main() {
	serve.Main(serve.Program{
		Name:   "pmdamyapp",
		Domain: 400,
		Log:    "myapp.log",
		New:    func(s serve.Start) (agents.Agent, error) { return myapp.New(s.Domain) },
	})
}
