// Package serve makes an [agents.Agent] a program: a daemon PMDA that any
// pmcd starts from a pipe or socket line of pmcd.conf, and dbpmda(1) too. An
// author's main is one call of [Main].
//
// The program takes the options of PCP's own agents and keeps their
// conventions for its log, its user and its end (pmdaGetOptions(3),
// pmdaOpenLog(3), pmdaConnect(3), pmdaMain(3)). Of libpcp_pmda's it leaves out
// what nobody can want: domains that do not exist, arguments that are not
// looked at, options behind arguments, the removal of files that are no socket.
// Who is not root runs as he is unless -U says otherwise. The protocol is
// package wire's.
package serve

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Program is a PMDA but for its transport. Options of the command line win
// over what is said here.
type Program struct {
	Name   string // in messages and in the log, such as pmdasimple
	Domain int    // unless -d says otherwise
	Log    string // file, unless -l says otherwise; "-" or none is the standard error output

	// User is the account to run as if the program is started by root and
	// without -U. None is that of $PCP_USER, which is pcp where that is not
	// set; an agent that needs all rights says "root".
	User string

	// Help is the base name of the help text, unless -h says otherwise.
	// Without it there is no option -h.
	Help string

	Usage   string   // the arguments in the usage message, such as "[options] type ..."; none is "[options]"
	Options []Option // those that the agent has besides the standard ones

	// CheckArgs looks at the arguments that follow the options. Its error is a
	// mistake on the command line. If CheckArgs is nil there must be none.
	CheckArgs func(args []string) error

	// New returns the agent. It is called with the log open and as the user
	// of the agent; pmcd waits for it, three seconds by default. An agent
	// that is an io.Closer is closed at the end.
	New func(Start) (agents.Agent, error)
}

// A Start is what an agent is started with.
type Start struct {
	Domain int
	Args   []string     // behind the options
	Help   string       // base name of the help text
	Debug  []string     // names given with -D (pmdbg(1)), sorted
	Log    *slog.Logger // the log; slog.Default too, under Main
}

// Exit codes of PCP's agents.
const (
	exitOK    = 0 // pmcd has closed the stream, or ctx has ended
	exitError = 1 // a mistake on the command line too, and -?
)

// Run runs p with the arguments args, without the name of the program, until
// pmcd closes the stream or ctx ends, and returns the exit code. The protocol
// is on stdin and stdout unless args say otherwise; they are closed, if they can
// be, when it is over. stderr is the log if there is no file.
//
// What belongs to the process is left alone: descriptors, signals, the
// environment, slog.Default and the user, so that -U does nothing. That is for
// tests, and for programs that do more than serve an agent. An agent that does
// not end within five seconds of the stream or of ctx is left behind.
func Run(ctx context.Context, p Program, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	r := runner{Program: p, stdin: stdin, stdout: stdout, stderr: stderr, grace: grace}
	return r.run(ctx, args)
}

// Main runs p as a process and does not return.
//
// The standard input and output are taken out of the agent's way: what it
// prints goes to the log. SIGTERM and SIGINT close the agent and end the log,
// and then end the process as they do with PCP's agents, so that a supervisor
// sees why it has ended; a second one does so at once. SIGHUP and SIGPIPE do
// nothing.
func Main(p Program) {
	r := runner{Program: p, stderr: os.Stderr, grace: grace, process: true}
	os.Exit(r.main(os.Args[1:]))
}

// RunChild runs an agent of pmcd's own as a process that pmcd has started for it,
// and does not return. It is Main without what makes a program: there are no
// options, the user and the environment are pmcd's choice, and messages, which
// have name in them, are lines of pmcd's log.
func RunChild(name string, newAgent func() (agents.Agent, error)) {
	r := runner{
		Program: Program{Name: name, New: func(Start) (agents.Agent, error) { return newAgent() }},
		stderr:  os.Stderr, grace: grace, process: true, child: true,
	}
	os.Exit(r.main(nil))
}

// main is the whole process but for its exit, unless that is by a signal.
func (r *runner) main(args []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Not signal.Ignore, which the agent's children would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(context.Background())
	caught := make(chan os.Signal, 1)
	go func() {
		sig := <-signals
		signal.Reset(syscall.SIGTERM, syscall.SIGINT) // a second one is meant for now
		caught <- sig
		cancel()
	}()

	in, out, err := takeStdio()
	if err != nil {
		r.preLogError("cannot keep the standard input and output: %v", err)
		return exitError
	}
	r.stdin, r.stdout = in, out
	if !r.child {
		if err := pmcdconf.SetPCPEnv(); err != nil { // options may say all that is needed
			r.preLogError("Warning: pcp.conf is not used: %v", err)
		}
	}
	code := r.run(ctx, args)
	select {
	case sig := <-caught:
		syscall.Kill(os.Getpid(), sig.(syscall.Signal))
		select {} // any thread may get it
	default:
		return code
	}
}
