package open

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents"
	agentserve "github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// agentPrefix is what argv[0] of the process of a built-in agent starts with.
// PCP's scripts take a process for pmcd if its name is pmcd or ends in /pmcd.
const agentPrefix = "pmcd-agent: "

// builtinSpec returns how the process of a built-in agent is started: it is another
// process of this program. Its arguments are the domain, the entry point, and the
// arguments of a pipe line.
func (table BuiltinAgents) builtinSpec(a *pmcdconf.Agent, stderr *os.File) child.Spec {
	argv := []string{agentName(a), strconv.Itoa(a.Domain), table.Entry(a)}
	if a.Kind == pmcdconf.Pipe {
		_, _, options := command(a)
		argv = append(argv, options...)
	}
	return child.Spec{
		Argv:   argv,
		Path:   roothelper.Self,
		Env:    child.OneProc(),
		Pipes:  true,
		Stderr: stderr,
	}
}

// agentName is what the process of a built-in agent is called, and what the agent is called
// in the log.
func agentName(a *pmcdconf.Agent) string { return agentPrefix + strings.ReplaceAll(a.Name, "/", "_") }

// RunShared serves an agent in a process that it shares with others. It is a
// shared.RunFunc.
func (table BuiltinAgents) RunShared(ctx context.Context, a *pmcdconf.Agent, stdin, stdout, stderr *os.File) int {
	name := agentName(a)
	in, err := table.standIn(a)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		stdin.Close()
		stdout.Close()
		return 1
	}
	return in.Run(ctx, name, stdin, stdout, stderr)
}

// IsBuiltinProcess reports whether argv[0] is that of the process of a built-in agent.
func IsBuiltinProcess(argv0 string) bool { return strings.HasPrefix(argv0, agentPrefix) }

// RunProcess is the main function of that process, which ends when pmcd closes its
// end of the pipe. It returns the exit code of a process that does not become an agent.
func (table BuiltinAgents) RunProcess(argv []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", argv[0], err)
		return 1
	}
	if len(argv) < 3 {
		return fail(fmt.Errorf("%d arguments: this program is started by pmcd only", len(argv)-1))
	}
	domain, err := strconv.Atoi(argv[1])
	b, ok := table[argv[2]]
	if err != nil || !ok {
		return fail(fmt.Errorf("no agent is built in as %s with domain %s", argv[2], argv[1]))
	}
	// The name was "exe". The kernel keeps 15 bytes of the new one.
	if err := os.WriteFile("/proc/self/comm", []byte(argv[0]), 0); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", argv[0], err)
	}
	if b.program != nil {
		p := b.program()
		p.Domain = domain
		in, err := agentserve.NewStandIn(p, argv[3:])
		if err != nil {
			return fail(err)
		}
		in.RunChild(argv[0])
	}
	agentserve.RunChild(argv[0], func() (agents.Agent, error) { return b.newAgent(domain) })
	panic("not reached")
}
