package shared_test

import (
	"context"
	"fmt"
	"os"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The root helper starts the shared process with the first agent.
func ExampleHost() {
	host := shared.NewHost(func(socket *os.File) (roothelper.AgentProcess, error) {
		return child.Start(child.Spec{
			Path:   "/proc/self/exe",
			Argv:   []string{shared.Name, "/etc/pcp/pmcd/pmcd.conf"}, // main calls Serve for this name
			Stderr: os.Stderr,
			Files:  []*os.File{socket},
		})
	}, func(line string) { fmt.Fprintln(os.Stderr, line) })

	ctx := context.Background()
	conf, err := pmcdconf.ParseFile(ctx, "/etc/pcp/pmcd/pmcd.conf", pmcdconf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range conf.Agents {
		agent, pipes, err := host.Start(ctx, &conf.Agents[i], os.Stderr)
		if err != nil {
			fmt.Println(err) // shared.ErrFailed: start it in a process of its own
			continue
		}
		pipes.Close() // the root helper passes them to the daemon first
		fmt.Println(conf.Agents[i].Name, "runs in process", agent.PID())
	}
}
