// Command pmcdctl shows the state of a running pmcd and tries its agents (pmcd(1)). It
// is not part of pmcd because PCP's scripts take each process with that name for the
// daemon.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// programName is the name of this program in messages.
const programName = "pmcdctl"

// Exit codes of pmcdctl.
const (
	exitOK       = 0 // all agents are ready and there is no problem
	exitProblems = 1 // some are not, or there is one
	exitNone     = 2 // no pmcd answers, or there is nothing to check
	exitUsage    = 3 // wrong arguments
)

const help = `Show the state of a running pmcd, or try its agents.

Exit codes: 0 all agents are ready, 1 an agent is not or there is a problem,
2 no pmcd answers (status) or nothing can be checked (check-agents),
3 wrong arguments.`

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	code := exitUsage // until a command has begun
	cmd := &cobra.Command{
		Use:               programName,
		Version:           version.Of(build),
		Long:              help,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE:              func(*cobra.Command, []string) error { return errors.New("no command: status or check-agents") },
	}
	cmd.AddCommand(statusCommand(&code), checkCommand(&code))
	cmd.SetVersionTemplate(version.Text(programName, version.Of(build)))
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // names the signal
		}
		fmt.Fprintf(stderr, "%s: %v\n", programName, err)
		if code == exitUsage {
			fmt.Fprintf(stderr, "try: %s --help\n", programName)
		}
		return code
	}
	if code == exitUsage { // --help, --version
		return exitOK
	}
	return code
}

// setEnv sets the environment variables of pcp.conf. If it cannot read pcp.conf, it prints a
// warning, because options and the environment may be sufficient. It prints none if there
// is no pcp.conf and the environment does not name one.
func setEnv(stderr io.Writer) {
	err := pcpconf.CheckNamed(os.LookupEnv)
	if err == nil {
		err = pcpconf.SetEnv()
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: Warning: pcp.conf is not used: %v\n", programName, err)
	}
}
