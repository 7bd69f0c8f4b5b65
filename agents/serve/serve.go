// Package serve makes an [agents.Agent] a program: a daemon PMDA that any pmcd
// can start from a pipe or socket line of pmcd.conf, as dbpmda(1) can. The main
// function of such a program is one call of [Main].
//
// The program accepts the options of PCP's own agents and follows their
// conventions for its log, its user and its exit (pmdaGetOptions(3),
// pmdaOpenLog(3), pmdaConnect(3), pmdaMain(3)). A [Server] is the protocol alone, for an
// agent whose stream its program has itself.
//
// An agent logs with log/slog, to the logger in [Start]. A message may name attributes in
// braces, whose values take the place of the names:
//
//	s.Log.Warn("{path} is ignored: {error}", "path", path, "error", err)
//
// Then other attributes are not part of the line. The attributes of a message that names
// none follow it as name=value, as with the handlers of log/slog. [NewHandler] has the
// format of a line.
//
// C PMDAs differ: libpcp_pmda accepts domains that do not exist, ignores
// arguments, accepts options after arguments, and for -u removes a file that is
// not a socket. This package does none of these. A process that is not root's
// keeps its user unless -U names another one.
package serve

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// A Program describes a PMDA. Options of the command line override its fields.
type Program struct {
	Name   string // used in messages and in the log, such as "pmdasimple"
	Domain int    // default of -d
	Log    string // default of -l; "" and "-" are the standard error output

	// User is the default of -U for a program that root starts. If it is "",
	// the program runs as the user in $PCP_USER, or as pcp if that is not set.
	// An agent that needs root's privileges sets it to "root".
	User string

	// UserOption is the letter of the option -U if the program has another option of
	// that name, as pmdatrace has.
	UserOption byte

	// Help is the base name of the help file, and the default of -h. If it is
	// "", the program has no option -h.
	Help string

	Usage   string   // the arguments in the usage message, such as "[options] type ..."; "" is "[options]"
	Options []Option // besides the standard options, or in place of those with the same letter

	// CheckArgs checks the arguments that follow the options. Its error is
	// printed with the usage message, and the program exits. If CheckArgs is
	// nil, arguments are an error.
	CheckArgs func(args []string) error

	// New returns the agent. It is called after the log has been opened and
	// the user has been set. pmcd waits for it, three seconds by default. An
	// agent that is an io.Closer is closed before the program exits.
	New func(Start) (agents.Agent, error)

	// Prepare, if not nil, is called with the agent when pmcd has connected. pmcd.conf has
	// "notready" for the program: pmcd sends requests when Prepare has returned, which may
	// take long (PM_ERR_PMDAREADY).
	Prepare func(context.Context, agents.Agent)
}

// A Start has the arguments of Program.New.
type Start struct {
	Domain int
	Args   []string     // the arguments that follow the options
	Help   string       // base name of the help file
	Debug  []string     // names given with -D (pmdbg(1)), sorted
	Log    *slog.Logger // the program's log, see the package comment; Main makes it slog.Default, too
}

// Exit codes of PCP's agents.
const (
	exitOK    = 0 // pmcd closed the stream, or ctx ended
	exitError = 1 // includes errors on the command line and -?
)

// Main runs p with the arguments of the process and does not return.
//
// Main moves the standard input and output to other descriptors, so that output
// which the agent prints goes to the log and not into the protocol. On SIGTERM
// or SIGINT it closes the agent and the log and then ends the process by the
// same signal, as PCP's agents end, so that a supervisor sees the cause. A second
// signal ends the process at once. SIGHUP and SIGPIPE have no effect.
func Main(p Program) {
	r := runner{Program: p, stderr: os.Stderr, grace: grace, process: true}
	os.Exit(r.main(os.Args[1:]))
}

// RunChild serves an agent in a child process that pmcd has started for it, and
// does not return. It is for agents that are compiled into pmcd. Unlike Main it
// reads no options, and leaves the user and the environment as pmcd has set
// them. Messages include name and go to pmcd's log.
func RunChild(name string, newAgent func() (agents.Agent, error)) {
	r := runner{
		Program: Program{Name: name, New: func(Start) (agents.Agent, error) { return newAgent() }},
		stderr:  os.Stderr, grace: grace, process: true, child: true,
	}
	os.Exit(r.main(nil))
}

// main runs the process and returns the exit code. It does not return if a
// signal ends the process.
func (r *runner) main(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// signal.Ignore would do, but the agent's children would inherit it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	caught := make(chan os.Signal, 1)
	go func() {
		sig := <-signals
		signal.Reset(syscall.SIGTERM, syscall.SIGINT) // a second signal ends the process
		caught <- sig
		cancel()
	}()

	in, out, err := takeStdio()
	if err != nil {
		r.preLogError("cannot duplicate the standard input and output: %v", err)
		return exitError
	}
	r.stdin, r.stdout = in, out
	if !r.child {
		if err := pcpconf.SetEnv(); err != nil { // options may give all that is needed
			r.preLogError("Warning: cannot use pcp.conf, its variables are not set: %v", err)
		}
	}
	code := r.run(ctx, args)
	select {
	case sig := <-caught:
		syscall.Kill(os.Getpid(), sig.(syscall.Signal))
		select {} // the kernel may deliver the signal to another thread
	default:
		return code
	}
}
