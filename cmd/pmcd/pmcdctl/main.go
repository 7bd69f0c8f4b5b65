// OpenSSL takes certificates with a negative serial number, and RSA keys with wrong CRT values.
//
//go:debug x509negativeserial=1
//go:debug x509rsacrt=0

// Command pmcdctl shows the metrics of any pmcd, the state of the one on this host, and tries
// its agents (pmcdctl(1)). It is not part of pmcd because PCP's scripts take each process with
// that name for the daemon, and because a daemon does not need what a client does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// programName is the name of this program in messages.
const programName = "pmcdctl"

// Exit codes of pmcdctl.
const (
	exitOK       = 0 // done; all agents are ready and there is no problem
	exitProblems = 1 // some are not, or there is one; a metric has no value, or differs
	exitNone     = 2 // no pmcd answers, or there is nothing to check
	exitUsage    = 3 // wrong arguments
)

const help = `Show the metrics of a pmcd, its state, or try its agents.

Exit codes: 0 success, and with status all agents are ready; 1 there is a problem:
an agent is not ready, there is no such metric, it cannot be had or set, or two
pmcds differ; 2 no pmcd answers, or nothing can be checked (check-agents); 3 wrong
arguments.`

// Groups of commands in the help.
const (
	groupMetrics = "metrics"
	groupDaemon  = "daemon"
)

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs the program and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	// nohup(1) ignores SIGHUP, and a shell ignores SIGINT for what it runs in the background.
	ctx, cancel := signal.NotifyContext(context.Background(), slices.DeleteFunc(ends, signal.Ignored)...)
	defer cancel()
	code := exitUsage // until a command has begun
	cmd := rootCommand(&code)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		plainUsage(cmd)
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if cmd, err := cmd.ExecuteContextC(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // names the signal
		}
		complain(stderr, err)
		switch code {
		case exitUsage:
			fmt.Fprintf(stderr, "try: %s --help\n", cmd.CommandPath())
		case exitOK: // the output cannot be written
			return exitProblems
		}
		return code
	}
	if code == exitUsage { // --help, --version
		return exitOK
	}
	return code
}

// rootCommand returns the command with all others in it. A command sets *code once it has
// begun.
func rootCommand(code *int) *cobra.Command {
	root := &cobra.Command{
		Use:               programName,
		Long:              help,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.NoArgs,
	}
	// -h is the host, as with PCP's programs.
	root.PersistentFlags().Bool("help", false, "print this help")
	showVersion := root.Flags().BoolP("version", "v", false, "print the version of this program")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*showVersion { // see version.Text
			return errors.New("no command")
		}
		_, err := io.WriteString(cmd.OutOrStdout(), version.Text(programName, version.Of(build)))
		return err
	}
	root.AddGroup(&cobra.Group{ID: groupMetrics, Title: "Metrics of this host, or of another (-h HOST):"},
		&cobra.Group{ID: groupDaemon, Title: "The pmcd of this host:"})
	for _, c := range []struct {
		group   string
		command *cobra.Command
	}{
		{groupMetrics, listCommand(code)},
		{groupMetrics, describeCommand(code)},
		{groupMetrics, getCommand(code)},
		{groupMetrics, watchCommand(code)},
		{groupMetrics, setCommand(code)},
		{groupMetrics, snapshotCommand(code)},
		{groupMetrics, compareCommand(code)},
		{groupMetrics, prometheusCommand(code)},
		{groupDaemon, statusCommand(code)},
		{groupDaemon, checkCommand(code)},
		{"", completionCommand(code)},
	} {
		c.command.GroupID = c.group
		root.AddCommand(c.command)
	}
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() == "help" {
			c.Short = "print the help of a command"
		}
	}
	return root
}

// complain prints an error. What a pmcd has sent cannot control the terminal.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(w, "%s: %s\n", programName, message.Printable(line))
	}
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
