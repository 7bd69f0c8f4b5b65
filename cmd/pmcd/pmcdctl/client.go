package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/clientcert"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/rundir"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// requestTime is how long a request may take, unless PMCD_REQUEST_TIMEOUT is set, as with
// PCP's clients.
const requestTime = 10 * time.Second

// clientFlags are the options of the commands that are clients of any pmcd.
type clientFlags struct {
	host           string
	anyCertificate bool
	json           bool
}

func (f *clientFlags) add(cmd *cobra.Command) {
	f.addHost(cmd)
	f.addJSON(cmd)
}

func (f *clientFlags) addHost(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.host, "host", "h", "", "`HOST` of the pmcd, as in PCPIntro(1) [$PMCD_HOST, then this host]")
	f.addCertificate(cmd)
	cmd.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
}

func (f *clientFlags) addCertificate(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.anyCertificate, "any-certificate", false, "with TLS, accept every certificate")
}

func (f *clientFlags) addJSON(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
}

// dial connects to a host. With reconnect, the client connects anew if it loses the
// connection.
func (f *clientFlags) dial(ctx context.Context, host string, reconnect bool, stderr io.Writer) (*pmapi.Client, error) {
	o := pmapi.Options{TLS: clientcert.Config(), AnyCertificate: f.anyCertificate, Timeout: requestTime}
	if secs, err := strconv.ParseFloat(os.Getenv("PMCD_REQUEST_TIMEOUT"), 64); err == nil && secs > 0 && secs < 1e6 {
		o.Timeout = time.Duration(secs * float64(time.Second))
	}
	if reconnect {
		o.Reconnect = &pmapi.Backoff{Max: 10 * time.Second}
	}
	var sockets []string
	if host == "" && os.Getenv("PMCD_HOST") == "" {
		setEnv(stderr)
		sockets = rundir.Sockets("/", os.Geteuid(), os.Getenv)
	}
	return metrics.Dial(ctx, host, sockets, o)
}

// name returns what the host is called on a terminal, without a password.
func (f *clientFlags) name() string {
	host := cmp.Or(f.host, os.Getenv("PMCD_HOST"))
	if spec, err := pmapi.ParseSpec(host); err == nil && spec.Password != "" {
		return spec.String()
	}
	name, err := os.Hostname()
	if err != nil {
		name = "this host"
	}
	return cmp.Or(host, name)
}

// run connects, and runs f. It sets the exit code.
func (f *clientFlags) run(cmd *cobra.Command, code *int, reconnect bool, run func(context.Context, *pmapi.Client) error) error {
	*code = exitNone
	c, err := f.dial(cmd.Context(), f.host, reconnect, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer c.Close()
	*code = exitOK
	if err := run(cmd.Context(), c); err != nil {
		*code = exitCodeOf(err)
		return err
	}
	return nil
}

func exitCodeOf(err error) int {
	if metrics.IsLost(err) {
		return exitNone
	}
	return exitProblems
}

// runSelected is run for a command whose arguments are METRIC... or METRIC[INSTANCE]...: run
// gets what they select. Some of them may select nothing, which is said on stderr and in the
// exit code. There is an error if none selects anything.
func (f *clientFlags) runSelected(cmd *cobra.Command, code *int, reconnect bool, args []string, run func(context.Context, *pmapi.Client, []metrics.Choice) error) error {
	selections, err := parseSelections(args)
	if err != nil {
		return err
	}
	return f.run(cmd, code, reconnect, func(ctx context.Context, c *pmapi.Client) error {
		choices, err := metrics.Select(ctx, c, selections)
		if err != nil {
			return err
		}
		var errs []error
		for _, ch := range choices {
			if ch.Err != nil {
				errs = append(errs, ch.Err)
			}
		}
		if len(metrics.Selected(choices)) == 0 {
			return errors.Join(errs...)
		}
		for _, err := range errs {
			*code = exitProblems
			complain(cmd.ErrOrStderr(), err)
		}
		return run(ctx, c, choices)
	})
}

// parseSelections parses METRIC... and METRIC[INSTANCE]...
func parseSelections(args []string) (selected []metrics.Selection, err error) {
	for _, arg := range args {
		s, err := metrics.Parse(arg)
		if err != nil {
			return nil, err
		}
		selected = append(selected, s)
	}
	return selected, nil
}
