package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/launch/dsohost"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/agents/pmdaroot"
	"github.com/gopcp/pmcd/pmcdconf"
)

// processSpec says how the process of an agent is started as a child of this
// process. program is where its program is, roothelper.Self for a built-in agent,
// or "" if it has not been looked for; user is who the host of a DSO becomes.
func processSpec(a *pmcdconf.Agent, program, user string, stderr *os.File) (child.Spec, error) {
	switch {
	case program == roothelper.Self:
		return builtinSpec(a, stderr), nil
	case a.Kind == pmcdconf.DSO:
		return dsohost.Spec(dsohost.DSO{Name: a.Name, Domain: a.Domain, Entry: a.Entry, Path: a.Path, User: user}, stderr)
	}
	return child.Spec{Argv: a.Argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr}, nil
}

// trustArg has the root helper start each agent with root's rights.
const trustArg = "trust-agents"

// startRootHelper starts the process that starts agents when this one is not root
// any more.
func startRootHelper(opt *options, id *identity, trustAll bool, stderr *os.File) (*roothelper.Client, error) {
	config := opt.config
	if opt.embedded {
		config = ""
	}
	args := []string{config, id.name}
	if trustAll {
		args = append(args, trustArg)
	}
	return roothelper.Start(roothelper.Self, args, stderr)
}

// withRoot starts the root helper of a daemon that becomes id.
func (o *opener) withRoot(opt *options, id *identity, stderr *os.File) (err error) {
	files := trustFiles(os.Getenv)
	trustAll, problem := trustAgents(files, os.Getenv)
	if problem != nil {
		o.log.Warn(problem.Error())
	}
	o.rights = &rights{trustCheck: trustCheck{config: opt.config, user: id.name, file: files[0]}, trustAll: trustAll,
		log: o.log, agents: make(map[int]string)}
	if opt.embedded {
		o.rights.config = ""
	}
	o.rights.start()
	o.root, err = startRootHelper(opt, id, trustAll, stderr)
	return err
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

// closeRootHelper ends the root helper. Its agents have ended by now.
func closeRootHelper(c *roothelper.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.Close(ctx)
}

// watchRootHelper waits for the end of the root helper, unless that of the daemon
// comes first. It logs how that has ended and what comes of it. If the daemon has
// to end because of that it calls end with the reason, else changed.
func (o opener) watchRootHelper(ctx context.Context, changed func(), end func(why string)) {
	select {
	case <-ctx.Done():
		return
	case <-o.root.Lost():
	}
	if ctx.Err() != nil {
		return
	}
	how := fmt.Sprintf("%v%s", roothelper.ErrLost, o.root.Ended(time.Second))
	o.rights.helperEnded(how)
	if o.endWithRoot {
		o.log.Error(how + ": pmcd ends, so that the service manager starts it again")
		end(how)
		return
	}
	o.log.Error(fmt.Sprintf("%s: its agents end, and agents are started as %s until pmcd is restarted", how, o.rights.user))
	changed()
}

// runRootHelper is the whole program in that process.
func runRootHelper(args []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", roothelper.Name, err)
		return exitError
	}
	if len(args) != 2 && (len(args) != 3 || args[2] != trustArg) {
		return fail(fmt.Errorf("%d arguments: only pmcd can start this", len(args)))
	}
	// Signals are meant for pmcd, whose end is the end of this process. To ignore
	// them would have agents ignore them, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := os.WriteFile("/proc/self/comm", []byte(roothelper.Name), 0); err != nil { // it is "exe"
		fmt.Fprintf(os.Stderr, "%s: %v\n", roothelper.Name, err)
	}
	socket := os.NewFile(3, "pmcd")
	if err := child.SetCloexecAll(); err != nil {
		return fail(fmt.Errorf("descriptors may leak into agents: %w", err))
	}
	if len(args) == 2 {
		path, rest := roothelper.SortPath(os.Getenv("PATH"))
		if len(rest) > 0 {
			fmt.Fprintf(os.Stderr, "%s: Warning: agents with root's rights have %q last in PATH: others than root can write there\n", roothelper.Name, rest)
		}
		if err := os.Setenv("PATH", path); err != nil {
			return fail(err)
		}
	}
	starter := child.NewStarter(protectFromOOM(helperScore))
	cfg := roothelper.Config{
		ConfigFile: args[0],
		BuiltIn:    builtin.needsRoot,
		TrustAll:   len(args) == 3,
		HostName:   askHost,
		Start: func(a *pmcdconf.Agent, program string, stderr *os.File) (*child.Process, error) {
			spec, err := processSpec(a, program, args[1], stderr)
			if err != nil {
				return nil, err
			}
			return starter.Start(spec)
		},
	}
	if cfg.ConfigFile == "" {
		embedded, err := loadEmbedded(false)
		if err != nil {
			return fail(err)
		}
		cfg.Embedded = embedded.Conf.Agents
	}
	if err := roothelper.Serve(socket, cfg); err != nil {
		return fail(err)
	}
	return exitOK
}

// lacks says what a built-in agent does not have without root's rights.
func (b builtinAgents) lacks(a *pmcdconf.Agent, program string) string {
	if program != roothelper.Self {
		return ""
	}
	return cmp.Or(b[a.Entry].lacks, "it cannot do all that it does as root")
}
