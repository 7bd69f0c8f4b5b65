// Pmdaproc is package proc as a program (PMDA(3)), with the options of
// pmdaproc(1). In pmcd.conf it is
//
//	proc  3  pipe  binary  /var/lib/pcp/pmdas/proc/pmdaproc -d 3
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/proc"
	"github.com/gopcp/pmcd/agents/serve"
)

func main() {
	o := proc.FromEnv()
	serve.Main(serve.Program{
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
			return proc.Open(s.Domain, o)
		},
	})
}
