package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve/getopt"
)

// A StandIn is a Program that is compiled into pmcd and takes the place of a program that
// a line of pmcd.conf names and that does not exist. It has the options of that line.
type StandIn struct {
	// Ignored are the words of the line that have no effect, such as options of PCP's
	// program that this Program does not have.
	Ignored []string
	// User is the argument of -U; "" is the user of the process.
	User string

	program  Program
	settings *settings
}

// NewStandIn returns the stand-in for the command line args, without the name of the
// program, of a pipe line of pmcd.conf for p.Domain. An error of getopt, such as an unknown
// option, and an option that selects a socket or another domain are ignored. It is an error
// if the argument of an option is wrong.
func NewStandIn(p Program, args []string) (*StandIn, error) {
	in := &StandIn{program: p}
	s := &settings{Start: Start{Domain: p.Domain, Help: p.Help}, log: "-"}
	rest, errs := getopt.Parse(s.options(&p), args)
	var wrong []error
	for _, err := range errs {
		switch {
		case err == errHelp:
			in.Ignored = append(in.Ignored, "-?")
		case errors.As(err, new(getopt.Error)):
			in.Ignored = append(in.Ignored, err.Error())
		default:
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if s.Domain != p.Domain {
		in.Ignored = append(in.Ignored, fmt.Sprintf("-d %d", s.Domain))
		s.Domain = p.Domain
	}
	if s.transport != 0 && s.transport != 'p' {
		in.Ignored = append(in.Ignored, fmt.Sprintf("-%c %s", s.transport, s.address))
		s.transport = 0
	}
	if p.CheckArgs != nil {
		if err := p.CheckArgs(rest); err != nil {
			return nil, err
		}
		s.Args = rest
	} else if len(rest) > 0 {
		in.Ignored = append(in.Ignored, strings.Join(rest, " "))
	}
	in.settings, in.User = s, s.user
	return in, nil
}

// NeedsProcess reports whether the agent must be a process of its own to have the effects
// of its options: a log file, or a user other than that of this process.
func (in *StandIn) NeedsProcess() bool {
	return in.settings.log != "-" || in.OtherUser()
}

// OtherUser reports whether the user of -U is not that of this process.
func (in *StandIn) OtherUser() bool {
	if in.User == "" {
		return false
	}
	u, err := user.Lookup(in.User)
	return err != nil || u.Uid != fmt.Sprint(os.Geteuid())
}

// New returns the agent, for this process, which logs to log.
func (in *StandIn) New(log *slog.Logger) (agents.Agent, error) {
	s := in.settings.Start
	s.Log = log
	return in.program.New(s)
}

// RunChild serves the agent in a child process that pmcd has started for it, as the
// function RunChild does, and does not return. Messages go to the file of -l, otherwise
// to pmcd's log and include name.
func (in *StandIn) RunChild(name string) {
	p := in.program
	if in.settings.log == "-" {
		p.Name = name
	}
	r := runner{Program: p, stderr: os.Stderr, grace: grace, process: true, child: true, given: in.settings}
	os.Exit(r.main(nil))
}

// Run serves the agent on stdin and stdout until pmcd closes the stream or ctx ends, and
// returns the exit code. It is for a child process of pmcd with several agents, none of
// which needs a process of its own. Messages go to stderr and include name.
//
// Run closes stdin and stdout at the end. It does not change the state of the process: its
// descriptors, signals, environment, slog.Default and user. If a call of the agent has
// not returned five seconds after the end of ctx, Run returns without it.
func (in *StandIn) Run(ctx context.Context, name string, stdin, stdout, stderr *os.File) int {
	p := in.program
	p.Name = name
	r := runner{Program: p, stdin: stdin, stdout: stdout, stderr: stderr, grace: grace, child: true, given: in.settings}
	return r.run(ctx, nil)
}
