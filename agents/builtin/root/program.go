package root

import (
	"cmp"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdaroot of PCP.
func Program() serve.Program {
	socket := ""
	return serve.Program{
		Name:   "pmdaroot",
		Domain: 1,
		Log:    "root.log",
		User:   "root", // to read what containers have
		Options: []serve.Option{
			{Short: 's', Long: "socket", Arg: "PATH", Text: "path of the Unix domain socket for other agents (default $PCP_VAR_DIR/pmcd/root.socket)",
				Set: func(path string) error { socket = path; return nil }},
		},
		New: func(s serve.Start) (agents.Agent, error) {
			o := FromEnv()
			o.Socket, o.Log = cmp.Or(socket, o.Socket), s.Log
			return Open(s.Domain, o)
		},
	}
}
