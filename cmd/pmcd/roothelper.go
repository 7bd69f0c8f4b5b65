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
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/pmcdconf"
)

// processSpec returns how the process of an agent is started as a child of this
// process. program is the path of its program, roothelper.Self for a built-in
// agent, or "" if it has not been looked up. user is the user that the host of a
// DSO becomes.
func processSpec(a *pmcdconf.Agent, program, user string, stderr *os.File) (child.Spec, error) {
	switch {
	case program == roothelper.Self:
		return builtinSpec(a, stderr), nil
	case a.Kind == pmcdconf.DSO:
		return dsohost.Spec(dsohost.DSO{Name: a.Name, Domain: a.Domain, Entry: a.Entry, Path: a.Path, User: user}, stderr)
	}
	return child.Spec{Argv: a.Argv, Path: program, Pipes: a.Kind == pmcdconf.Pipe, Stderr: stderr}, nil
}

// trustArg is the argument with which the root helper starts every agent with root's
// rights.
const trustArg = "trust-agents"

// startRootHelper starts the process that starts agents when this process is no
// longer root.
func startRootHelper(opt *cli.Options, id *identity, trustAll bool, stderr *os.File) (*roothelper.Client, error) {
	config := opt.Config
	if opt.Embedded {
		config = ""
	}
	args := []string{config, id.name}
	if trustAll {
		args = append(args, trustArg)
	}
	return roothelper.Start(roothelper.Self, args, stderr)
}

// withRoot starts the root helper of a daemon that will become id.
func (o *opener) withRoot(opt *cli.Options, id *identity, stderr *os.File) (err error) {
	files := trustFiles(os.Getenv)
	trustAll, problem := trustAgents(files, os.Getenv)
	if problem != nil {
		o.log.Warn(problem.Error())
	}
	o.rights = &rights{trustCheck: trustCheck{config: opt.Config, user: id.name, file: files[0]}, trustAll: trustAll,
		log: o.log, agents: make(map[int]string)}
	if opt.Embedded {
		o.rights.config = ""
	}
	o.rights.start()
	o.root, err = startRootHelper(opt, id, trustAll, stderr)
	return err
}

// containerHost returns the host name in a container.
func (o opener) containerHost(ctx context.Context, container string) (string, error) {
	if o.root != nil { // pmdaroot answers only root
		return o.root.HostName(ctx, container)
	}
	return askHost(container)
}

// askHost asks pmdaroot for the host name in a container.
func askHost(container string) (string, error) {
	var root pmdaroot.Client
	defer root.Close()
	return root.HostName(container)
}

// closeRootHelper ends the root helper, whose agents have ended already.
func closeRootHelper(c *roothelper.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.Close(ctx)
}

// watchRootHelper waits until the root helper has ended, or ctx when the daemon
// ends. If the root helper has ended, it logs how and what follows from it. Then it
// calls end with the reason if the daemon must end, else changed.
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

// runRootHelper is the main function of that process.
func runRootHelper(args []string) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", roothelper.Name, err)
		return cli.ExitError
	}
	if len(args) != 2 && (len(args) != 3 || args[2] != trustArg) {
		return fail(fmt.Errorf("%d arguments: this program is started by pmcd only", len(args)))
	}
	// These signals are meant for pmcd; this process ends when pmcd ends. They are
	// caught and not ignored, because agents would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := os.WriteFile("/proc/self/comm", []byte(roothelper.Name), 0); err != nil { // the name was "exe"
		fmt.Fprintf(os.Stderr, "%s: %v\n", roothelper.Name, err)
	}
	socket := os.NewFile(3, "pmcd")
	if err := child.SetCloexecAll(); err != nil {
		return fail(fmt.Errorf("agents may inherit open descriptors: %w", err))
	}
	if len(args) == 2 {
		path, rest := roothelper.SortPath(os.Getenv("PATH"))
		if len(rest) > 0 {
			fmt.Fprintf(os.Stderr, "%s: Warning: users other than root can write to %q: these directories come last in PATH of agents with root's rights\n", roothelper.Name, rest)
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
		defaults, err := embedded.Load(false)
		if err != nil {
			return fail(err)
		}
		cfg.Embedded = defaults.Conf.Agents
	}
	if err := roothelper.Serve(socket, cfg); err != nil {
		return fail(err)
	}
	return cli.ExitOK
}

// lacks returns what a built-in agent cannot do without root's rights.
func (b builtinAgents) lacks(a *pmcdconf.Agent, program string) string {
	if program != roothelper.Self {
		return ""
	}
	return cmp.Or(b[a.Entry].lacks, "it cannot do all that it does as root")
}
