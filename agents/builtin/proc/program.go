package proc

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdaproc of PCP.
func Program() serve.Program {
	o := FromEnv()
	return serve.Program{
		Name:   "pmdaproc",
		Domain: 3,
		Log:    "proc.log",
		User:   "root", // to assume the client's user and group in a request
		Options: []serve.Option{
			{Short: 'A', Long: "no-access-checks", Text: "show all values to all clients (insecure)", Set: func(string) error {
				o.AllAccess = true
				return nil
			}},
			{Short: 'L', Long: "with-threads", Text: "list threads besides processes", Set: func(string) error {
				o.Threads = true
				return nil
			}},
			{Short: 'r', Long: "from-cgroup", Arg: "NAME", Text: "list only the processes of a control group", Set: func(dir string) error {
				o.Cgroup = dir
				return nil
			}},
		},
		New: func(s serve.Start) (agents.Agent, error) {
			o.Log = s.Log
			return Open(s.Domain, o)
		},
	}
}
