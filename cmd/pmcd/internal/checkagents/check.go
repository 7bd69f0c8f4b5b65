// Package checkagents is pmcd --check-agents, with which pmcdctl check-agents starts the agents of
// pmcd.conf and gets a metric from each. It starts neither the daemon nor a root helper, and needs
// no running pmcd.
package checkagents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// Exit codes, which are those of pmcdctl.
const (
	exitOK       = 0 // all agents work
	exitProblems = 1 // some do not
	exitNone     = 2 // no agent can be checked
)

// Run starts the agents that opt.CheckNames names, or all, gets the descriptor and the value of a metric
// from each, ends them, and prints the results. It returns the exit code. incomplete is why the
// options are not sufficient, or nil.
func Run(opt *cli.Options, incomplete error, stdout, stderr io.Writer) int {
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	// nohup(1) ignores SIGHUP, and a shell ignores SIGINT for what it runs in the background.
	ctx, cancel := signal.NotifyContext(context.Background(), slices.DeleteFunc(ends, signal.Ignored)...)
	defer cancel()
	// Agents log as in pmcd.
	slog.SetDefault(slog.New(logtext.NewHandler(stderr, programName(), slog.LevelInfo)))
	good, err := false, incomplete
	if err == nil {
		good, err = checkAgents(ctx, opt, stdout, stderr)
	}
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx) // names the signal
	}
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(stderr, "%s: %s\n", programName(), message.Printable(line))
		}
	}
	switch {
	case good && err == nil:
		return exitOK
	case good || err == nil: // or the results cannot be printed
		return exitProblems
	}
	return exitNone
}

// A trial is the test of one agent, and its result.
type trial struct {
	spec   pmcdconf.Agent
	metric metric

	// How long each step took; 0 if it did not come to that.
	start, desc, fetch time.Duration

	untrusted *roothelper.Untrusted // why it is not started as root; nil if it is, or as any other user

	note   string   // a note for the admin about an agent that works
	err    error    // why the test has failed
	output []string // last lines of its standard error output and of its log
}

// checkAgents tests agents, prints the results, and reports whether all of them work.
func checkAgents(ctx context.Context, opt *cli.Options, stdout, stderr io.Writer) (bool, error) {
	conf, tree, err := load(ctx, opt, stderr)
	if err != nil {
		return false, err
	}
	where := cmp.Or(opt.ConfigFile(), "the embedded configuration")
	trials, err := newTrials(where, conf.Agents, opt.CheckNames, firstMetrics(tree))
	if err != nil {
		return false, err
	}
	trust := privsep.NewTrustCheck(opt.ConfigFile(), opt.User, os.Getenv)
	if trust != nil && trust.Problem != nil {
		fmt.Fprintf(stderr, "%s: %v\n", programName(), trust.Problem)
	}
	for _, t := range trials {
		t.untrusted = trust.Untrusted(&t.spec, open.Builtin.Has)
	}
	dir, leave, err := ownWorkDir(trials)
	if err != nil {
		return false, err
	}
	defer leave()
	if os.Geteuid() != 0 {
		fmt.Fprintf(stderr, "%s: agents are started with the rights of %s, pmcd may have others\n", programName(), message.UserName(int64(os.Geteuid())))
	}
	c := &checker{opt: opt, dir: dir, trust: trust,
		opener: open.New(open.Config{Builtin: open.Builtin, Log: slog.New(slog.DiscardHandler)})}
	var wg sync.WaitGroup
	for _, t := range trials {
		if t.spec.Domain == pmcdconf.RootDomain { // the others connect to it
			c.try(ctx, t)
		}
	}
	for _, t := range trials {
		if t.spec.Domain != pmcdconf.RootDomain {
			wg.Go(func() { c.try(ctx, t) })
		}
	}
	wg.Wait()
	print := printTrials
	if opt.JSON {
		print = printJSON
	}
	err = print(stdout, trials, trust)
	return !slices.ContainsFunc(trials, func(t *trial) bool { return t.err != nil }), cmp.Or(ctx.Err(), err)
}

// load reads the configuration and the name space.
func load(ctx context.Context, opt *cli.Options, stderr io.Writer) (*pmcdconf.Config, *pmnsload.Tree, error) {
	if opt.Embedded {
		e, err := embedded.Load(opt.ReqAuth)
		if err != nil {
			return nil, nil, err
		}
		return e.Conf, e.Names, nil
	}
	conf, err := pmcdconf.ParseFile(ctx, opt.Config, pmcdconf.Options{})
	if conf != nil {
		for _, p := range conf.Problems {
			fmt.Fprintln(stderr, p.Error())
		}
	}
	switch {
	case conf == nil:
		return nil, nil, fmt.Errorf("cannot read the configuration: %w", err)
	case err != nil:
		return nil, nil, fmt.Errorf("%s is rejected: %w", opt.Config, err)
	}
	tree, err := opt.Namespace.Load()
	return conf, tree, err
}

// A metric is the metric that an agent is asked for.
type metric struct {
	name    string
	entry   pmnsload.Entry // Leaf, or Dynamic: the agent tells what is below
	present bool
}

// firstMetrics returns a metric of each domain, the first in the name space. One
// that is in the name space itself is preferred.
func firstMetrics(tree *pmnsload.Tree) map[int]metric {
	first := make(map[int]metric)
	for e := range tree.All("") {
		domain := e.Domain
		if e.Kind == pmnsload.Leaf {
			domain = e.PMID.Domain()
		}
		if m := first[domain]; !m.present || m.entry.Kind == pmnsload.Dynamic && e.Kind == pmnsload.Leaf {
			first[domain] = metric{e.Name, e, true}
		}
	}
	return first
}

// newTrials selects agents by name; no names are all. where is what has the agents.
func newTrials(where string, agents []pmcdconf.Agent, names []string, metrics map[int]metric) (trials []*trial, err error) {
	found := make(map[string]bool)
	for _, a := range agents {
		if len(names) == 0 || slices.Contains(names, a.Name) {
			found[a.Name] = true
			trials = append(trials, &trial{spec: a, metric: metrics[a.Domain]})
		}
	}
	for _, name := range names {
		if !found[name] {
			err = errors.Join(err, fmt.Errorf("there is no agent %q in %s", name, where))
		}
	}
	if err == nil && len(trials) == 0 {
		err = fmt.Errorf("there are no agents in %s", where)
	}
	return trials, err
}

// ownWorkDir creates a directory for the logs of agents, and makes it the working directory.
// In pmcd's directory, agents would overwrite the logs of running ones. Relative paths of
// commands are made absolute.
func ownWorkDir(trials []*trial) (dir string, leave func(), err error) {
	was, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	for _, t := range trials {
		if argv := t.spec.Argv; len(argv) > 0 && strings.Contains(argv[0], "/") && !filepath.IsAbs(argv[0]) {
			t.spec.Argv = slices.Clone(argv)
			t.spec.Argv[0] = filepath.Join(was, argv[0])
		}
	}
	if dir, err = os.MkdirTemp("", "pmcd-check"); err != nil {
		return "", nil, err
	}
	leave = func() {
		os.Chdir(was)
		os.RemoveAll(dir)
	}
	// Agents that become another user still have to be able to look there.
	if err = cmp.Or(os.Chmod(dir, 0o755), os.Chdir(dir)); err != nil {
		leave()
		return "", nil, err
	}
	return dir, leave, nil
}
