package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
)

// checkCommand is pmcdctl check-agents. pmcd does it, which has all agents in it.
func checkCommand(code *int) *cobra.Command {
	var config, namespace string
	var embedded, asJSON bool
	start, answer := seconds(3), seconds(5)
	cmd := &cobra.Command{
		Use:   "check-agents [flags] [NAME...]",
		Short: "start agents of pmcd.conf, get a metric from each, and end them",
		Long: `Start the agents of pmcd.conf, or the named ones, get the descriptor and the
value of one metric from each, and end them.

Agents start as under pmcd, at the same time and with the rights of the caller.
They run in a temporary directory. If root runs this, an agent that pmcd would not
start as root is started as the user that pmcd becomes. A running pmcd is not
affected. An agent that listens at a port or path that is in use is not started.

This runs "pmcd --check-agents" of the same build.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			*code = exitNone
			path, err := findProgram("pmcd", os.Executable, exec.LookPath)
			if err != nil {
				return err
			}
			if err := sameBuild(cmd.Context(), path); err != nil {
				return err
			}
			args := []string{programName, "--check-agents", "-q", start.String(), "-t", answer.String()}
			for _, o := range []struct {
				name, value string
				given       bool
			}{
				{"--config=", config, config != ""}, {"--namespace=", namespace, namespace != ""},
				{"--embedded", "", embedded}, {"--json", "", asJSON},
			} {
				if o.given {
					args = append(args, o.name+o.value)
				}
			}
			args = slices.Concat(args, []string{"--"}, names)
			return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, os.Environ()))
		},
	}
	f := cmd.Flags()
	f.StringVarP(&config, "config", "c", "", "`path` of pmcd.conf [$PCP_PMCDCONF_PATH]")
	f.StringVarP(&namespace, "namespace", "n", "", "`path` of the name space [$PCP_VAR_DIR/pmns/root]")
	f.BoolVar(&embedded, "embedded", false, "compiled-in configuration, even if PCP is installed")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.VarP(&start, "start", "q", "`seconds` for an agent to start")
	f.VarP(&answer, "answer", "t", "`seconds` for an agent to answer")
	cmd.MarkFlagsMutuallyExclusive("embedded", "config")
	cmd.MarkFlagsMutuallyExclusive("embedded", "namespace")
	return cmd
}

// sameBuild returns an error unless the program is the pmcd of this build. PCP's pmcd takes an option
// that it does not know for a request for help, and exits with 0.
func sameBuild(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Args[0] = programName // by its name, PCP's scripts would take it for the daemon
	// With NOTIFY_SOCKET, pmcd would be a service.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s --version: %w", path, err)
	}
	said, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n") // PCP's has no such option
	own := version.Of(build)
	if want := strings.TrimSpace(version.Text("pmcd", own)); said != want {
		return fmt.Errorf("%s is of another build than this pmcdctl, which is %s: with --version it prints %q; install both from the same build", path, own, said)
	}
	return nil
}
