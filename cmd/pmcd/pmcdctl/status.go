package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/pmcdconf"
)

// askTime is how long a pmcd may take to report its state.
const askTime = 10 * time.Second

// statusCommand is pmcdctl status.
func statusCommand(code *int) *cobra.Command {
	var asJSON bool
	var socket string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "say how the running pmcd does, its agents, and its clients",
		Long: `Say how the running pmcd does, its agents, and its clients.

Only root and the user that pmcd runs as may ask.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			*code = exitNone
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			r, err := requestReport(ctx, socket, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			*code = exitCode(r)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(r)
			}
			return printStatus(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON, complete")
	cmd.Flags().StringVarP(&socket, "socket", "s", "",
		"Unix domain `socket` of the pmcd, as in pmcd -s; or the one beside it, which ends in .ctl")
	return cmd
}

// requestReport asks the pmcd that has its socket for clients at socket. If that is "",
// it tries the usual places.
func requestReport(ctx context.Context, socket string, stderr io.Writer) (*ctl.Report, error) {
	if socket != "" {
		return ask(ctx, []string{socket})
	}
	if err := pmcdconf.SetPCPEnv(); err != nil && !errors.Is(err, fs.ErrNotExist) { // PCP need not be there
		fmt.Fprintf(stderr, "%s: Warning: pcp.conf is not used: %v\n", programName, err)
	}
	return ask(ctx, cli.Sockets("/", os.Geteuid(), os.Getenv))
}

// ask returns the report of the first pmcd that answers of those that may have these
// sockets. If none answers, the error of a pmcd that is there has precedence over those
// of places without one.
func ask(ctx context.Context, sockets []string) (*ctl.Report, error) {
	var none []string // where there is no pmcd
	var denied, failed error
	for _, socket := range sockets {
		path := socket
		if !strings.HasSuffix(path, ".ctl") {
			path = ctl.Path(path)
		}
		r, err := ctl.Ask(ctx, path)
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, fs.ErrPermission), errors.Is(err, ctl.ErrRefused) && os.Geteuid() != 0:
			denied = cmp.Or(denied, fmt.Errorf("%s: permission denied: only root and the user that pmcd runs as may ask", path))
		case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist):
			failed = cmp.Or(failed, err)
		case path != socket && ctl.Listening(socket):
			failed = cmp.Or(failed, fmt.Errorf("the pmcd at %s cannot be asked: there is no %s; it is not this pmcd, or its log says why", socket, path))
		default:
			none = append(none, fmt.Sprintf("%s: %v", path, message.Errno(err)))
		}
	}
	if err := cmp.Or(denied, failed); err != nil {
		return nil, err
	}
	text := "no pmcd answers: " + strings.Join(none, "; ")
	if len(none) > 1 {
		text += " (-s says where its socket is)"
	}
	return nil, errors.New(text)
}

// exitCode is that of pmcdctl status. A note about an agent that is ready does
// not count: it is for reading.
func exitCode(r *ctl.Report) int {
	if len(r.Problems) > 0 || r.Reloads.Error != "" {
		return exitProblems
	}
	for _, a := range r.Agents {
		if a.State != ctl.Ready {
			return exitProblems
		}
	}
	return exitOK
}

// fewClients is how many clients are shown to people.
const fewClients = 20

// printStatus writes r for people.
func printStatus(w io.Writer, r *ctl.Report) error {
	p := &printer{w: w}
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return age(r.Now.Sub(t))
	}
	p.line("pmcd %s (as PCP %s), pid %d, %s, up %s", r.Build, r.Version, r.PID, userName(int64(r.UID)), ago(r.Started))
	if r.Embedded {
		p.line("configuration: embedded")
	} else {
		p.line("configuration: %s", r.Config)
		p.line("name space:    %s", r.Namespace)
	}
	p.line("listening:     %s", strings.Join(r.Listening, " "))
	switch {
	case r.Reloads.Count == 0:
		p.line("reloads:       none")
	case r.Reloads.Error == "":
		p.line("reloads:       %d, the last %s ago", r.Reloads.Count, ago(r.Reloads.Last))
	default:
		p.line("reloads:       %d, the last %s ago failed: %s", r.Reloads.Count, ago(r.Reloads.Last), r.Reloads.Error)
	}
	for _, text := range r.Problems {
		p.line("problem:       %s", text)
	}

	p.line("")
	p.line("AGENT\tDOMAIN\tKIND\tSTATE\tFOR\tPID\tRESTARTS\tREQUESTS\tERRORS\tMEAN\tMAX")
	for _, a := range r.Agents {
		pid, mean, most := "-", "-", "-"
		if a.PID != 0 {
			pid = fmt.Sprint(a.PID)
		}
		if a.Requests > 0 {
			mean, most = micros(a.MeanUS), micros(a.MaxUS)
		}
		p.line("%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s",
			a.Name, a.Domain, a.Kind, a.State, ago(a.Since), pid, a.Restarts, a.Requests, a.Errors, mean, most)
	}
	p.flush()
	for _, a := range r.Agents {
		if a.Note != "" {
			p.line("")
			p.line("%s %s", a.Name, a.Note)
		}
		if a.LastError == "" {
			continue
		}
		p.line("")
		p.line("%s, %s ago: %s", a.Name, ago(a.ErrorAt), a.LastError)
		for _, line := range a.StderrTail {
			p.line("    %s", line)
		}
		if !a.NextStart.IsZero() {
			p.line("    %d failures in a row; it is started again in %s", a.Failures, age(a.NextStart.Sub(r.Now)))
		}
	}

	p.line("")
	if len(r.Clients) == 0 {
		p.line("no clients")
		return p.flush()
	}
	p.line("CLIENT\tFOR\tADDRESS\tUSER\tDENIED\tWHO")
	for _, c := range r.Clients[:min(len(r.Clients), fewClients)] {
		name := "-"
		if c.UID != nil {
			name = userName(*c.UID)
		}
		who := c.Whoami
		if c.Container != "" {
			who = strings.TrimSpace("[container " + c.Container + "] " + who)
		}
		p.line("%d\t%s\t%s\t%s\t%s\t%s", c.Number, ago(c.Since), c.Address, name, cmp.Or(c.Denied, "-"), cmp.Or(who, "-"))
	}
	p.flush()
	if more := len(r.Clients) - fewClients; more > 0 {
		p.line("and %d more: --json has all", more)
	}
	return p.flush()
}
