package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/rundir"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/table"
)

// askTime is how long a pmcd may take to report its state.
const askTime = 10 * time.Second

// statusCommand is pmcdctl status.
func statusCommand(code *int) *cobra.Command {
	var asJSON, ready bool
	var socket string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show the state of the running pmcd, its agents, limits and clients",
		Long: `Show the state of the running pmcd, its agents, limits and clients.

Only root and the user that pmcd runs as may ask.

With --ready the exit code is 0 if pmcd answers, whatever its agents do and
whatever problems there are.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			*code = exitNone
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			r, err := requestReport(ctx, socket, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if ready {
				*code = exitOK
				return printReady(cmd.OutOrStdout(), r)
			}
			*code = exitCode(r)
			if asJSON {
				enc := message.NewJSONEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(r)
			}
			return printStatus(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything as JSON")
	cmd.Flags().BoolVar(&ready, "ready", false, "print a line, and exit with 0 if pmcd answers: for probes of containers")
	cmd.MarkFlagsMutuallyExclusive("json", "ready")
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
	setEnv(stderr)
	return ask(ctx, rundir.Sockets("/", os.Geteuid(), os.Getenv))
}

// ask tries the sockets in their order, and returns the report of the first pmcd that
// answers. If none answers, the error of a pmcd that exists has precedence over errors of
// sockets without a pmcd.
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
	hint := "is pmcd running? systemctl status pmcd"
	if len(none) > 1 {
		hint += "; -s says where its socket is"
	}
	return nil, fmt.Errorf("no pmcd answers: %s (%s)", strings.Join(none, "; "), hint)
}

// exitCode returns the exit code of pmcdctl status. It does not depend on notes about agents
// that are ready.
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

// printReady writes where pmcd listens, and how many agents are ready.
func printReady(w io.Writer, r *ctl.Report) error {
	agents := 0
	for _, a := range r.Agents {
		if a.State == ctl.Ready {
			agents++
		}
	}
	p := table.New(w)
	p.Line("listening: %s; %d of %s ready, %s", strings.Join(r.Listening, " "),
		agents, plural(len(r.Agents), "agent"), plural(len(r.Problems), "problem"))
	return p.Flush()
}

// printStatus writes r for people.
func printStatus(w io.Writer, r *ctl.Report) error {
	p := table.New(w)
	printDaemon(p, r)
	printAgents(p, r)
	printLimits(p, r)
	printClients(p, r)
	return p.Flush()
}

// since returns how long ago t was, for a table.
func since(r *ctl.Report, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(r.Now.Sub(t))
}

// printDaemon writes what there is of pmcd itself.
func printDaemon(p *table.Printer, r *ctl.Report) {
	p.Line("pmcd %s (as PCP %s), pid %d, %s, up %s", r.Build, r.Version, r.PID, message.UserName(int64(r.UID)), since(r, r.Started))
	if r.Embedded {
		p.Line("configuration: embedded")
	} else {
		p.Line("configuration: %s", r.Config)
		p.Line("name space:    %s", r.Namespace)
	}
	p.Line("listening:     %s", strings.Join(r.Listening, " "))
	if t := r.TLS; t != nil {
		p.Line("TLS:           %s, expires on %s", t.Subject, t.Expires.Format("2 January 2006"))
	}
	switch {
	case r.Reloads.Count == 0:
		p.Line("reloads:       none")
	case r.Reloads.Error == "":
		p.Line("reloads:       %d, the last %s", r.Reloads.Count, ago(r.Now.Sub(r.Reloads.Last)))
	default:
		p.Line("reloads:       %d, the last failed %s: %s", r.Reloads.Count, ago(r.Now.Sub(r.Reloads.Last)), strings.ReplaceAll(r.Reloads.Error, "\n", "; "))
	}
	for _, text := range r.Problems {
		p.Line("problem:       %s", text)
	}
	if o := r.Overload; o != nil {
		of := fmt.Sprintf("there were %s", plural(int(o.Requests), "request"))
		if o.OfMost > 0 {
			of = fmt.Sprintf("of %d requests %d were from %s", o.Requests, o.OfMost, groupName(o.Most))
		}
		p.Line("overload:      for %v of the minute that ended %s requests were queued; %s",
			(time.Duration(o.TimeMS) * time.Millisecond).Round(100*time.Millisecond), ago(r.Now.Sub(o.Until)), of)
	}
}

// printAgents writes a table of agents, and notes about some.
func printAgents(p *table.Printer, r *ctl.Report) {
	p.Line("")
	p.Line("AGENT\tDOMAIN\tKIND\tSTATE\tFOR\tPID\tRESTARTS\tREQUESTS\tERRORS\tMEAN\tMAX")
	for _, a := range r.Agents {
		pid, mean, most := "-", "-", "-"
		if a.PID != 0 {
			pid = fmt.Sprint(a.PID)
		}
		if a.Requests > 0 {
			mean, most = message.Micros(a.MeanUS), message.Micros(a.MaxUS)
		}
		p.Line("%s\t%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s",
			a.Name, a.Domain, a.Kind, a.State, since(r, a.Since), pid, a.Restarts, a.Requests, a.Errors, mean, most)
	}
	p.Flush()
	for _, a := range r.Agents {
		if a.Note != "" {
			p.Line("")
			p.Line("%s %s", a.Name, a.Note)
		}
		if a.LastError == "" {
			continue
		}
		p.Line("")
		p.Line("%s failed %s: %s", a.Name, ago(r.Now.Sub(a.ErrorAt)), a.LastError)
		for _, line := range a.StderrTail {
			p.Line("    %s", line)
		}
		if !a.NextStart.IsZero() {
			p.Line("    %s in a row; it is started again %s", plural(a.Failures, "failure"), in(a.NextStart.Sub(r.Now)))
		}
	}
}

// printLimits writes the limits for clients.
func printLimits(p *table.Printer, r *ctl.Report) {
	if len(r.Limits) == 0 {
		return
	}
	p.Line("")
	p.Line("LIMIT\tUSED\tOF\tDISCONNECTED\tLAST")
	for _, l := range r.Limits {
		last, of := "-", "-"
		if l.Last != "" {
			last = fmt.Sprintf("%s, %s", l.Last, ago(r.Now.Sub(l.LastAt)))
		}
		if l.Limit > 0 {
			of = amount(l.Limit, l.Unit)
		}
		p.Line("%s\t%s\t%s\t%d\t%s", l.Name, amount(l.Used, l.Unit), of, l.Disconnected, last)
	}
	p.Flush()
}

// printClients writes the clients, but no more than an admin may want to see.
func printClients(p *table.Printer, r *ctl.Report) {
	p.Line("")
	if len(r.Clients) == 0 {
		p.Line("no clients")
		return
	}
	const few = 20
	p.Line("CLIENT\tFOR\tADDRESS\tUSER\tDENIED\tWHO")
	for _, c := range r.Clients[:min(len(r.Clients), few)] {
		name := "-"
		if c.UID != nil {
			name = message.UserName(*c.UID)
		}
		who := c.Whoami
		if c.Container != "" {
			who = strings.TrimSpace("[container " + c.Container + "] " + who)
		}
		p.Line("%d\t%s\t%s\t%s\t%s\t%s", c.Number, since(r, c.Since), c.Address, name, cmp.Or(c.Denied, "-"), cmp.Or(who, "-"))
	}
	p.Flush()
	if more := len(r.Clients) - few; more > 0 {
		p.Line("and %d more: --json has all", more)
	}
}
