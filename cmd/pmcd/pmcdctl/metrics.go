package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/watch"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// listCommand is pmcdctl list.
func listCommand(code *int) *cobra.Command {
	var f clientFlags
	var details bool
	cmd := &cobra.Command{
		Use:   "list [flags] [TEXT]",
		Short: "list the names of metrics, or find metrics",
		Long: `List the names of all metrics, or of those that begin with TEXT. If there are
none, list those that have TEXT in them, or else in their line of help.

With -l there is more about each: its type, semantics, units and a line of help.`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: f.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, code, false, func(ctx context.Context, c *pmapi.Client) error {
				names, err := metrics.Find(ctx, c, strings.Join(args, ""))
				if err != nil {
					return err
				}
				list, err := metrics.List(ctx, c, names, details)
				switch {
				case err != nil:
					return err
				case f.json:
					return metrics.PrintJSON(cmd.OutOrStdout(), map[string]any{"metrics": list})
				}
				return metrics.PrintList(cmd.OutOrStdout(), list, details)
			})
		},
	}
	cmd.Flags().BoolVarP(&details, "long", "l", false, "type, semantics, units and a line of help, too")
	f.add(cmd)
	return cmd
}

// someMetrics is cobra.MinimumNArgs(1) with a better text.
func someMetrics(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("no metric is named (pmcdctl list shows all there are)")
	}
	return nil
}

// describeCommand is pmcdctl describe.
func describeCommand(code *int) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:               "describe [flags] METRIC...",
		Short:             "say what metrics are: help, type, units, instances, labels",
		Long:              "Say what metrics are: help, type, units, instances, labels.\n\nThe name of a subtree stands for all metrics below it.",
		Args:              someMetrics,
		ValidArgsFunction: f.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.runSelected(cmd, code, false, args, func(ctx context.Context, c *pmapi.Client, choices []metrics.Choice) error {
				list, err := metrics.Describe(ctx, c, metrics.Selected(choices))
				if err != nil {
					return err
				}
				for i := range list {
					if list[i].Err != nil {
						*code = exitProblems
					}
				}
				if f.json {
					return metrics.PrintJSON(cmd.OutOrStdout(), map[string]any{"metrics": list})
				}
				return metrics.PrintDescriptions(cmd.OutOrStdout(), list)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// getCommand is pmcdctl get.
func getCommand(code *int) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "get [flags] METRIC[INSTANCE]...",
		Short: "get the values of metrics",
		Long: `Get the present values of metrics, or of single instances of them.

The name of a subtree stands for all metrics below it. Counters are shown as they
are: "pmcdctl watch" shows their rates.`,
		Example:           "  pmcdctl get kernel.all.load\n  pmcdctl get -h web1 'kernel.all.load[1 minute]' mem",
		Args:              someMetrics,
		ValidArgsFunction: f.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.runSelected(cmd, code, false, args, func(ctx context.Context, c *pmapi.Client, choices []metrics.Choice) error {
				s, err := metrics.NewSampler(ctx, c, choices, false)
				if err != nil {
					return err
				}
				sample, err := s.Fetch(ctx)
				if err != nil {
					return err
				}
				if sample.Failed() {
					*code = exitProblems
				}
				if f.json {
					return metrics.PrintJSON(cmd.OutOrStdout(), sample)
				}
				return metrics.PrintSample(cmd.OutOrStdout(), sample)
			})
		},
	}
	f.add(cmd)
	return cmd
}

// watchCommand is pmcdctl watch.
func watchCommand(code *int) *cobra.Command {
	var f clientFlags
	interval := interval(time.Second)
	samples := 0
	cmd := &cobra.Command{
		Use:   "watch [flags] METRIC[INSTANCE]...",
		Short: "watch the values of metrics, and the rates of counters",
		Long: `Watch the values of metrics, or of single instances of them, until q or ^C.

The name of a subtree stands for all metrics below it. Counters are shown as
rates, and times that are counted as a part of the time. On a terminal the values
are shown in place, otherwise one a line. There, s sorts them by value, or again
in the order of the names; the arrows, the page keys, and j, k, space and b scroll.`,
		Example:           "  pmcdctl watch disk.dev\n  pmcdctl watch -t 5s -s 12 'network.interface.in.bytes[eth0]' | tee log",
		Args:              someMetrics,
		ValidArgsFunction: f.completeNames(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			if samples < 0 {
				return errors.New("-s: the number of samples cannot be negative")
			}
			return f.runSelected(cmd, code, true, args, func(ctx context.Context, c *pmapi.Client, choices []metrics.Choice) error {
				s, err := metrics.NewSampler(ctx, c, choices, true)
				if err != nil {
					return err
				}
				resized := make(chan os.Signal, 1)
				signal.Notify(resized, unix.SIGWINCH)
				defer signal.Stop(resized)
				size := terminal(cmd.OutOrStdout())
				var keys <-chan watch.Key
				if tty, ok := cmd.InOrStdin().(*os.File); ok && size != nil && !f.json {
					var restore func()
					keys, restore = watch.Keys(tty)
					defer restore()
				}
				good, err := watch.Run(ctx, s, watch.Options{
					Interval: time.Duration(interval), Samples: samples, Host: f.name(), JSON: f.json, Resized: resized,
					Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Size: size, Keys: keys,
				})
				if !good && ctx.Err() == nil {
					*code = exitProblems
				}
				return err
			})
		},
	}
	cmd.Flags().VarP(&interval, "interval", "t", "`time` between two samples, such as 5s, 500ms or 2min")
	cmd.Flags().IntVarP(&samples, "samples", "s", 0, "`number` of samples; 0 is no end")
	f.add(cmd)
	return cmd
}

// terminal returns the function for the size of the terminal that w is, or nil if it is none
// on which the cursor can be moved.
func terminal(w io.Writer) func() (width, height int) {
	file, ok := w.(*os.File)
	if term := os.Getenv("TERM"); !ok || term == "" || term == "dumb" {
		return nil
	}
	size := func() (int, int) {
		ws, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
		if err != nil || ws.Col == 0 || ws.Row == 0 {
			return 80, 24
		}
		return int(ws.Col), int(ws.Row)
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return size
}

// setCommand is pmcdctl set.
func setCommand(code *int) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "set [flags] METRIC[INSTANCE] VALUE",
		Short: "set the value of a metric",
		Long: `Set the value of a metric, or of one instance of it, and print the value before
and after.

The agent of the metric must allow it, and so must the access rules of pmcd.`,
		Example: "  pmcdctl set pmcd.control.timeout 10\n  pmcdctl set -- 'simple.color[red]' -1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("a metric and its new value are required")
			}
			return nil
		},
		ValidArgsFunction: f.completeNames(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := metrics.Parse(args[0])
			if err != nil {
				return err
			}
			return f.run(cmd, code, false, func(ctx context.Context, c *pmapi.Client) error {
				change, err := metrics.Set(ctx, c, s, args[1])
				switch {
				case err != nil:
					return err
				case f.json:
					return metrics.PrintJSON(cmd.OutOrStdout(), change)
				}
				return metrics.PrintChange(cmd.OutOrStdout(), change)
			})
		},
	}
	f.add(cmd)
	return cmd
}
