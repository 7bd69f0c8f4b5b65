// Package privsep divides the rights of root between two processes. The daemon becomes
// another user; its root helper stays root and starts agents, but as root only those
// that no other user can change. The package decides on both, and records and reports
// which agents run without root's rights.
package privsep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	agentserve "github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
)

// trustArg is the argument with which the root helper starts every agent with root's
// rights.
const trustArg = "trust-agents"

// A Helper is the root helper of a daemon that becomes another user: the process that
// starts agents as root. It records which agents run without root's rights.
type Helper struct {
	*roothelper.Client
	Rights *Rights
	// EndDaemon is true if the daemon must end when the root helper does, for a service
	// manager to start both again.
	EndDaemon bool
	log       *slog.Logger
	stderr    *child.Stderr
}

// A helperOutput logs lines that the root helper or its process for agents has written. Lines
// without the name of the process, such as those of a panic, get that of the root helper.
type helperOutput struct{ log *slog.Logger }

// Write implements io.Writer. b is whole lines.
func (o helperOutput) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.Contains(line, "pmcd-root") && !strings.Contains(line, shared.Name) {
			line = "pmcd-root: " + line
		}
		o.log.Info("{text}", "text", line, logtext.Bare(), logtext.Event("helper_output"))
	}
	return len(b), nil
}

// StartHelper starts the root helper of a daemon that will become id. config is the
// configuration file, "" for the embedded configuration. The output of the root
// helper is a pipe and goes to log, which does not block: so does the root helper not, while the
// log is not read. StartHelper returns an error if ctx ends first: the file system of config may
// not answer.
func StartHelper(ctx context.Context, config string, id *Identity, endDaemon bool, log *slog.Logger) (*Helper, error) {
	files := trustFiles(os.Getenv)
	trustAll, problem := trustAgents(files, os.Getenv)
	if problem != nil {
		log.Warn("{error}", "error", problem, logtext.Event("trust_agents_ignored"))
	}
	r := &Rights{TrustCheck: TrustCheck{config: config, user: id.Name, file: files[0]}, trustAll: trustAll,
		log: log, agents: make(map[int]string)}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	args := []string{config, id.Name}
	if trustAll {
		args = append(args, trustArg)
	}
	stderr, err := child.NewStderr(helperOutput{log})
	if err != nil {
		return nil, err
	}
	client, err := roothelper.Start(roothelper.Self, args, stderr.File())
	stderr.Started()
	if err != nil {
		stderr.Close()
		return nil, err
	}
	return &Helper{Client: client, Rights: r, EndDaemon: endDaemon, log: log, stderr: stderr}, nil
}

// Stop ends the root helper, whose agents have ended already.
func (h *Helper) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h.Close(ctx)
	h.stderr.Close()
}

// Watch waits until the root helper has ended, or ctx when the daemon ends. If the root
// helper has ended, it logs how and what follows from it. Then it calls end with the
// reason if the daemon must end, else changed.
func (h *Helper) Watch(ctx context.Context, changed func(), end func(why string)) {
	select {
	case <-ctx.Done():
		return
	case <-h.Lost():
	}
	if ctx.Err() != nil {
		return
	}
	how := h.Ended(time.Second)
	h.Rights.helperEnded(how)
	if h.EndDaemon {
		h.log.Error("{error}; pmcd ends with exit code 1, so that the service manager starts it again with a root helper", "error", how)
		end(how)
		return
	}
	h.log.Error("{error}; the agents that it has started end, and are started again as {user}, without root's rights, until pmcd is restarted", "error", how, "user", h.Rights.user)
	changed()
}

// A HelperConfig has what the process of a root helper needs of other packages.
type HelperConfig struct {
	// BuiltIn reports whether a built-in agent is used for a line that may be started as
	// root.
	BuiltIn func(*pmcdconf.Agent) bool
	// Spec returns how the process of an agent is started. program is the path of its
	// program, and user the user that the host of a DSO becomes.
	Spec func(a *pmcdconf.Agent, program, user string, stderr *os.File) (child.Spec, error)
	// Sharable reports whether a built-in agent that root starts may share a process with
	// others, and RunShared serves it there.
	Sharable  func(*pmcdconf.Agent) bool
	RunShared shared.RunFunc
	// HostName returns the host name in a container, ContainerProcess its first process.
	HostName         func(container string) (string, error)
	ContainerProcess func(container string) (int, error)
	// Embedded returns the agents of the embedded configuration.
	Embedded func() ([]pmcdconf.Agent, error)
}

// RunHelper is the main function of the process of a root helper. It returns the exit
// code.
func RunHelper(args []string, c HelperConfig) int {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", roothelper.Name, err)
		return 1
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
	child.NotForChildren()
	trustAll := len(args) == 3
	if !trustAll {
		path, rest := roothelper.SortPath(os.Getenv("PATH"))
		if len(rest) > 0 {
			fmt.Fprintf(os.Stderr, "%s: Warning: users other than root can write to %q: these directories come last in PATH of agents with root's rights\n", roothelper.Name, rest)
		}
		if err := os.Setenv("PATH", path); err != nil {
			return fail(err)
		}
	}
	starter := child.NewStarter(protectFromOOM(helperScore))
	cfg, err := c.config(args[0], trustAll)
	if err != nil {
		return fail(err)
	}
	host := shared.NewHost(func(socket *os.File) (roothelper.AgentProcess, error) {
		spec := child.Spec{Argv: append([]string{shared.Name, args[0]}, args[2:]...), Path: roothelper.Self,
			Env: child.OneProc(), Stderr: os.Stderr, Files: []*os.File{socket}}
		return starter.Start(spec)
	}, func(line string) { fmt.Fprintf(os.Stderr, "%s: %s\n", roothelper.Name, line) })
	cfg.BuiltIn, cfg.HostName, cfg.ContainerProcess = c.BuiltIn, c.HostName, c.ContainerProcess
	cfg.Start = func(a *pmcdconf.Agent, program string, stderr *os.File) (roothelper.AgentProcess, *child.Pipes, error) {
		if program == roothelper.Self && c.Sharable(a) {
			p, pipes, err := host.Start(context.Background(), a, stderr)
			if err == nil {
				return p, pipes, nil
			}
			if !errors.Is(err, shared.ErrFailed) {
				return nil, nil, err
			}
		}
		spec, err := c.Spec(a, program, args[1], stderr)
		if err != nil {
			return nil, nil, err
		}
		p, err := starter.Start(spec)
		if err != nil {
			return nil, nil, err
		}
		return p, p.Pipes, nil
	}
	if err := roothelper.Serve(socket, cfg); err != nil {
		return fail(err)
	}
	return 0
}

// config returns what the configurations of a root helper and of a process for shared agents
// have in common.
func (c *HelperConfig) config(file string, trustAll bool) (cfg roothelper.Config, err error) {
	cfg = roothelper.Config{ConfigFile: file, TrustAll: trustAll}
	if file == "" {
		cfg.Embedded, err = c.Embedded()
	}
	return cfg, err
}

// RunSharedProcess is the main function of a process for agents that share it, a child of
// the root helper. It returns the exit code.
func RunSharedProcess(args []string, c HelperConfig) int {
	log := slog.New(agentserve.NewHandler(os.Stderr, shared.Name, slog.LevelInfo))
	slog.SetDefault(log)
	if err := c.runShared(args, log); err != nil {
		log.Error("the process for built-in agents of root ends: {error}", "error", err)
		return 1
	}
	return 0
}

func (c *HelperConfig) runShared(args []string, log *slog.Logger) error {
	if len(args) != 1 && (len(args) != 2 || args[1] != trustArg) {
		return fmt.Errorf("%d arguments: this program is started by pmcd only", len(args))
	}
	// This process ends when the root helper does, or by SIGTERM.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	if err := os.WriteFile("/proc/self/comm", []byte(shared.Name), 0); err != nil { // the name was "exe"
		log.Warn("cannot set the name of this process: {error}", "error", err)
	}
	socket := os.NewFile(3, "pmcd-root")
	if err := child.SetCloexecAll(); err != nil {
		return fmt.Errorf("programs that agents start may inherit open descriptors: %w", err)
	}
	cfg, err := c.config(args[0], len(args) == 2)
	if err != nil {
		return err
	}
	cfg.BuiltIn = c.Sharable
	return shared.Serve(socket, cfg, c.RunShared)
}
