package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/dsohost"
	"github.com/gopcp/pmcd/agents/pmdaroot"
	"github.com/gopcp/pmcd/agents/proc"
	"github.com/gopcp/pmcd/agents/rootchild"
	"github.com/gopcp/pmcd/pmcdconf"
)

// startProcess starts the process of an agent as a child of this process.
// program is where its program is, rootchild.Self for a built-in agent, or "" if
// it has not been looked for; user is who the host of a DSO becomes.
func startProcess(a *pmcdconf.Agent, program, user string, stderr *os.File) (*proc.Process, error) {
	switch {
	case program == rootchild.Self:
		return startBuiltin(a, stderr)
	case a.Kind == pmcdconf.DSO:
		return dsohost.Start(dsohost.DSO{Name: a.Name, Domain: a.Domain, Entry: a.Entry, Path: a.Path, User: user}, stderr)
	}
	return proc.Start(proc.Spec{Argv: a.Argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr})
}

// newRootChild starts the process that starts agents when this one is not root
// any more.
func newRootChild(opt *options, id *identity, stderr *os.File) (*rootchild.Child, error) {
	config := opt.config
	if opt.embedded {
		config = ""
	}
	return rootchild.New(rootchild.Self, []string{config, id.name}, stderr)
}

// containerHost returns what the host is called in a container.
func (o opener) containerHost(ctx context.Context, container string) (string, error) {
	if o.root != nil { // pmdaroot answers root
		return o.root.HostName(ctx, container)
	}
	return askHost(container)
}

// askHost asks pmdaroot what the host is called in a container.
func askHost(container string) (string, error) {
	var root pmdaroot.Client
	defer root.Close()
	return root.HostName(container)
}

// closeRootChild ends the root child. Its agents have ended by now.
func closeRootChild(c *rootchild.Child) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.Close(ctx)
}

// runRootChild is the whole program in that process.
func runRootChild(args []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", rootchild.Name, err)
		return exitError
	}
	if len(args) != 2 {
		return fail(fmt.Errorf("%d arguments: only pmcd can start this", len(args)))
	}
	// Signals are meant for pmcd, whose end is the end of this process. To ignore
	// them would have agents ignore them, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := os.WriteFile("/proc/self/comm", []byte(rootchild.Name), 0); err != nil { // it is "exe"
		fmt.Fprintf(os.Stderr, "%s: %v\n", rootchild.Name, err)
	}
	socket := os.NewFile(3, "pmcd")
	if err := proc.Seal(); err != nil {
		return fail(fmt.Errorf("descriptors may leak into agents: %w", err))
	}
	cfg := rootchild.Config{
		ConfigFile: args[0],
		BuiltIn:    builtin.needsRoot,
		HostName:   askHost,
		Start: func(a *pmcdconf.Agent, program string, stderr *os.File) (*proc.Process, error) {
			return startProcess(a, program, args[1], stderr)
		},
	}
	if cfg.ConfigFile == "" {
		embedded, err := loadEmbedded(false)
		if err != nil {
			return fail(err)
		}
		cfg.Embedded = embedded.Conf.Agents
	}
	if err := rootchild.Serve(socket, cfg); err != nil {
		return fail(err)
	}
	return exitOK
}
