package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/compare"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// snapshotFlags are the options of the commands that take snapshots.
type snapshotFlags struct {
	compare.Options
	interval interval
}

func (f *snapshotFlags) add(cmd *cobra.Command) {
	f.interval = interval(time.Second)
	fl := cmd.Flags()
	fl.StringArrayVarP(&f.Exclude, "exclude", "x", nil, "leave out the metrics of this `subtree`; can be repeated")
	fl.VarP(&f.interval, "interval", "t", "`time` between two samples, such as 5s, 500ms or 2min")
	fl.IntVarP(&f.Samples, "samples", "s", 5, "`number` of samples")
	fl.IntVar(&f.PID, "pid", 0, "`process` of the pmcd, if it is another than that of the pid file")
}

// take takes snapshots of hosts at the same time.
func (f *snapshotFlags) take(ctx context.Context, prefixes []string, clients ...*pmapi.Client) ([]*compare.Snapshot, error) {
	f.Prefixes, f.Interval = prefixes, time.Duration(f.interval)
	return compare.Take(ctx, f.Options, clients...)
}

func (f *snapshotFlags) check() error {
	if f.Samples < 1 || f.PID < 0 {
		return errors.New("-s and --pid: a number of 1 or more is required")
	}
	return nil
}

// snapshotCommand is pmcdctl snapshot.
func snapshotCommand(code *int) *cobra.Command {
	var f clientFlags
	var o snapshotFlags
	cmd := &cobra.Command{
		Use:   "snapshot [flags] [PREFIX...]",
		Short: "print all that a pmcd serves, to compare it later",
		Long: `Print all that a pmcd serves as JSON: names, descriptors, texts, labels, instances,
values, errors, and what pmcd and its agents cost. "pmcdctl compare -f" reads it.
PREFIX selects metrics; none selects all.`,
		Example:           "  pmcdctl snapshot >before.json\n  pmcdctl snapshot -t 10s -s 30 -x proc >before.json",
		ValidArgsFunction: f.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return f.run(cmd, code, false, func(ctx context.Context, c *pmapi.Client) error {
				s, err := o.take(ctx, args, c)
				if err != nil {
					return err
				}
				return metrics.PrintJSON(cmd.OutOrStdout(), s[0])
			})
		},
	}
	o.add(cmd)
	f.addHost(cmd)
	return cmd
}

// compareCommand is pmcdctl compare.
func compareCommand(code *int) *cobra.Command {
	var f clientFlags
	var o snapshotFlags
	var hosts, files []string
	tolerance, sameAgents := part(0.1), false
	cmd := &cobra.Command{
		Use:   "compare [flags] [-f FILE] [-f FILE] [-h HOST] [-h HOST] [PREFIX...]",
		Short: "compare two pmcds, or one with what it was before",
		Long: `Compare two pmcds, two files of "pmcdctl snapshot", or a file with a pmcd: names,
descriptors, texts, labels, instances, values, and what they cost. The first one is
A. A single FILE is compared with HOST, or with the pmcd of this host. PREFIX
selects metrics; none selects all.

Two pmcds are compared by values of the same time: numbers must agree within the
tolerance, and counters in their rates. Values of different times differ by
themselves. Of these, only discrete ones must be equal, and numbers are checked
for resets and wrong scales.`,
		Example:           "  pmcdctl compare -f before.json\n  pmcdctl compare -h localhost:44321 -h localhost:4321 -x proc",
		ValidArgsFunction: f.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(files) == 1 && len(hosts) == 0 {
				hosts = []string{""}
			}
			if len(files)+len(hosts) != 2 {
				return errors.New("two of -f FILE and -h HOST are required, or one FILE")
			}
			if err := o.check(); err != nil {
				return err
			}
			*code = exitNone
			both, err := f.snapshots(cmd, &o, files, hosts, args)
			if err != nil {
				return err
			}
			r := compare.Compare(both[0], both[1], compare.Rules{Tolerance: float64(tolerance), SameAgents: sameAgents})
			*code = exitOK
			if len(r.Differences) > 0 {
				*code = exitProblems
			}
			if f.json {
				return metrics.PrintJSON(cmd.OutOrStdout(), r)
			}
			return compare.Print(cmd.OutOrStdout(), r)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVarP(&hosts, "host", "h", nil, "`HOST` of a pmcd, as in PCPIntro(1); can be repeated")
	fl.StringArrayVarP(&files, "file", "f", nil, "`FILE` with a snapshot; can be repeated")
	fl.Var(&tolerance, "tolerance", "`part` of a number by which it may differ, such as 0.1 or 10%")
	fl.BoolVar(&sameAgents, "same-agents", false, "leave out the metrics whose agent B does not have")
	o.add(cmd)
	f.addCertificate(cmd)
	f.addJSON(cmd)
	cmd.RegisterFlagCompletionFunc("host", cobra.NoFileCompletions)
	return cmd
}

// snapshots returns those of files, and then of hosts.
func (f *clientFlags) snapshots(cmd *cobra.Command, o *snapshotFlags, files, hosts, prefixes []string) (all []*compare.Snapshot, err error) {
	for _, file := range files {
		s, err := compare.Load(file)
		if err != nil {
			return nil, fmt.Errorf("-f: %w", err)
		}
		all = append(all, s)
	}
	var clients []*pmapi.Client
	for _, host := range hosts {
		c, err := f.dial(cmd.Context(), host, false, cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	if len(clients) > 0 {
		taken, err := o.take(cmd.Context(), prefixes, clients...)
		if err != nil {
			return nil, err
		}
		all = append(all, taken...)
	}
	for _, s := range all {
		s.Select(prefixes, o.Exclude)
	}
	if len(all[0].Metrics)+len(all[1].Metrics) == 0 {
		return nil, errors.New("neither has such metrics")
	}
	return all, nil
}
