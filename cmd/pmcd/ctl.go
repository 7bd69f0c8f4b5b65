package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/pmcdconf"
)

// ctlName is what this program is called when an admin runs it beside the
// daemon: PCP's scripts take each process that is called pmcd for that.
const ctlName = "pmcdctl"

// Exit codes of pmcdctl.
const (
	ctlOK    = 0 // all agents are ready and there is no problem
	ctlSome  = 1 // some are not, or there is one
	ctlNone  = 2 // there is nobody to ask, or nothing to check
	ctlUsage = 3 // wrong arguments
)

const ctlHelp = `Ask a running pmcd how it does, or try its agents.

Exit codes: 0 all agents are well, 1 some are not or pmcd reports a problem,
2 there is no pmcd (status) or nothing that could be checked (check-agents),
3 wrong arguments.`

// pmcdctl is the whole of pmcdctl but for its exit.
func pmcdctl(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	code := ctlUsage // until a command has begun
	cmd := &cobra.Command{
		Use:               ctlName,
		Version:           version.Of(build),
		Long:              ctlHelp,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
		RunE:              func(*cobra.Command, []string) error { return errors.New("no command: status or check-agents") },
	}
	cmd.AddCommand(statusCommand(&code), checkCommand(&code))
	cmd.SetVersionTemplate(version.Text(ctlName, version.Of(build)))
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", ctlName, err)
		if code == ctlUsage {
			fmt.Fprintf(stderr, "try: %s --help\n", ctlName)
		}
		return code
	}
	if code == ctlUsage { // --help, --version
		return ctlOK
	}
	return code
}

// setCtlEnv puts what pcp.conf says into the environment. As for pmcd, options
// and the environment may say all that is needed.
func setCtlEnv(stderr io.Writer) {
	if err := pmcdconf.SetPCPEnv(); err != nil {
		fmt.Fprintf(stderr, "%s: Warning: pcp.conf is not used: %v\n", ctlName, err)
	}
}
