package linux

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdalinux of PCP.
func Program() serve.Program {
	return serve.Program{
		Name:   "pmdalinux",
		Domain: 60,
		Log:    "linux.log",
		User:   "root", // only root may look into containers and read slab caches
		New:    func(s serve.Start) (agents.Agent, error) { return New(s.Domain) },
	}
}
