// OpenSSL takes certificates with a negative serial number, and RSA keys with wrong CRT values.
//
//go:debug x509negativeserial=1
//go:debug x509rsacrt=0

// Command pmcd is the collector daemon of Performance Co-Pilot (pmcd(1)).
package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	agentserve "github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/background"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/checkagents"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/verify"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/launch/shared"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

// Other processes of this program are its children. Their argv[0] tells what they are;
// the hosts of DSOs do not get here (see package dsohost).
func main() {
	helper := privsep.HelperConfig{
		BuiltIn:          open.Builtin.AsRoot,
		Spec:             open.Builtin.ProcessSpec,
		Sharable:         open.Builtin.Sharable,
		RunShared:        open.Builtin.RunShared,
		HostName:         open.HostName,
		ContainerProcess: open.ContainerProcess,
		Embedded:         embedded.Agents,
	}
	switch name := os.Args[0]; {
	case name == roothelper.Name:
		os.Exit(privsep.RunHelper(os.Args[1:], helper))
	case name == shared.Name:
		os.Exit(privsep.RunSharedProcess(os.Args[1:], helper))
	case open.IsBuiltinProcess(name):
		os.Exit(open.Builtin.RunProcess(os.Args))
	}
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run runs the program and returns its exit code.
func run(args []string, stderr io.Writer) int {
	syscall.Umask(0o22) // agents inherit it
	opt, err := cli.Parse(args)
	if opt.CheckAgents {
		return checkAgents(opt, err, stderr)
	}
	launcher, launcherErr := background.FindLauncher()
	if launcherErr != nil {
		fmt.Fprintf(stderr, "pmcd: %v\n", launcherErr)
		return cli.NotStarted(stderr)
	}
	opt.Service = opt.Managed || os.Getenv("NOTIFY_SOCKET") != ""
	if err != nil {
		code, failure := opt.Reject(err, versionText(), os.Stdout, stderr)
		if failure != nil {
			launcher.ReportFailure(failure, opt.FailureFile, nil)
		}
		return code
	}
	err = complete(opt, launcher == nil, stderr)
	switch {
	case opt.Verify:
		return verify.Run(opt, err, open.Builtin, stderr)
	case err != nil:
		fmt.Fprintf(stderr, "pmcd: %v\n", err)
		cli.NotStarted(stderr)
		launcher.ReportFailure(err, opt.FailureFile, nil)
		return opt.MistakeCode()
	case launcher == nil && !opt.Foreground && !opt.Managed:
		return background.Start(stderr)
	}
	return serve(opt, launcher, stderr)
}

// checkAgents is pmcd --check-agents. err is that of the command line. It returns the exit code.
func checkAgents(opt *cli.Options, err error, stderr io.Writer) int {
	if err != nil {
		code, _ := opt.Reject(err, versionText(), os.Stdout, stderr)
		return code
	}
	if err = checkagents.Prepare(); err == nil {
		err = complete(opt, true, stderr)
	}
	return checkagents.Run(opt, err, os.Stdout, stderr)
}

// versionText returns what -V and --version print.
func versionText() string {
	text := version.Text("pmcd", version.Of(build))
	if version.Limits != "" {
		text += version.Limits + "\n"
	}
	return text
}

// complete sets the environment variables of pcp.conf, and completes the options from the
// environment. warn is false in the second process of daemon mode, because the first one
// has printed the warnings.
func complete(opt *cli.Options, warn bool, stderr io.Writer) error {
	opt.WithoutPCPConf = !pcpconf.Exists(os.LookupEnv) // before it adds variables that may name another
	if !opt.Named && embedded.WithoutPCP("/", os.LookupEnv) {
		opt.Embedded = true
	}
	if opt.Embedded {
		if _, ok := os.LookupEnv("PCP_VERSION"); !ok { // agents get it from pcp.conf otherwise
			os.Setenv("PCP_VERSION", pcpconf.Version)
		}
	} else if err := pcpconf.SetEnv(); err != nil && warn { // options may be sufficient
		fmt.Fprintf(stderr, "pmcd: Warning: pcp.conf is not used: %v\n", err)
	}
	for name, path := range cli.HostPaths(os.Getenv) {
		os.Setenv(name, path)
	}
	// In daemon mode PCP's scripts look for pmcd.log. The first process of a container writes
	// to the log of the container.
	if opt.Log == "" && (opt.Foreground || opt.Managed) && (logging.StderrIsJournal() || os.Getpid() == 1) {
		opt.Log = "-"
	}
	if err := opt.Complete(os.Getenv); err != nil {
		return err
	}
	// Agents that are Go programs have the limit, too.
	if opt.MaxReply != 0 {
		return os.Setenv(agentserve.MaxReplyVar, strconv.Itoa(opt.MaxReply))
	}
	return nil
}
