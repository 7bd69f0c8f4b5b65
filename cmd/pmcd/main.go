// Command pmcd is the collector daemon of Performance Co-Pilot (pmcd(1)).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/background"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/status"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/systemd"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/verify"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf"
)

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

func main() {
	if os.Args[0] == roothelper.Name {
		os.Exit(privsep.RunHelper(os.Args[1:], privsep.HelperConfig{
			NeedsRoot: open.Builtin.NeedsRoot,
			Spec:      open.ProcessSpec,
			HostName:  open.HostName,
			Embedded:  embedded.Config,
		}))
	}
	if open.IsBuiltinProcess(os.Args[0]) {
		os.Exit(open.Builtin.RunProcess(os.Args))
	}
	os.Exit(run(os.Args[1:], os.Stderr))
}

// run is the whole program but for its exit.
func run(args []string, stderr io.Writer) int {
	syscall.Umask(0o22) // agents get it too
	waiter, err := background.FindLauncher()
	if err != nil {
		fmt.Fprintf(stderr, "pmcd: %v\n", err)
		return cli.NotStarted(stderr)
	}
	opt, err := cli.Parse(args)
	var usage *cli.UsageError
	switch {
	case err != nil && opt.IsService(err, os.Getenv):
		why := cli.OneLine(err)
		waiter.ReportFailure(errors.New(why), opt.FailureFile, nil)
		return cli.UsageFailed(why, stderr)
	case errors.Is(err, cli.ErrHelp):
		fmt.Fprint(stderr, cli.UsageText)
		return cli.ExitOK
	case errors.Is(err, cli.ErrVersion):
		fmt.Print(version.Text("pmcd", version.Of(build)))
		return cli.ExitOK
	case errors.As(err, &usage) && usage.Harmless:
		fmt.Fprint(stderr, usage)
		return cli.ExitOK
	case errors.As(err, &usage):
		fmt.Fprint(stderr, usage)
		cli.NotStarted(stderr)
		waiter.ReportFailure(errors.New(usage.Short()), opt.FailureFile, nil)
		return cli.ExitError
	}
	if !opt.Named && embedded.WithoutPCP("/", os.LookupEnv) {
		opt.Embedded = true
	}
	if _, given := os.LookupEnv("PCP_VERSION"); opt.Embedded && !given { // pcp.conf has it for agents
		os.Setenv("PCP_VERSION", pmcd.Version)
	}
	if !opt.Embedded {
		if err := pmcdconf.SetPCPEnv(); err != nil && waiter == nil { // options may say all that is needed
			fmt.Fprintf(stderr, "pmcd: Warning: pcp.conf is not used: %v\n", err)
		}
	}
	// In daemon mode pmcd.log is where PCP's scripts look for it.
	if opt.Log == "" && (opt.Foreground || opt.Managed) && logging.StderrIsJournal() {
		opt.Log = "-"
	}
	err = opt.Complete(os.Getenv)
	if opt.Verify {
		return verify.Run(opt, err, open.Builtin, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "pmcd: %v\n", err)
		cli.NotStarted(stderr)
		waiter.ReportFailure(err, opt.FailureFile, nil)
		return cli.ExitError
	}
	if waiter == nil && !opt.Foreground && !opt.Managed {
		return background.Start(stderr)
	}
	return serve(opt, waiter, stderr)
}

// serve opens the ports, then the log, and serves until a signal says not to.
// waiter waits for it to begin.
func serve(opt *cli.Options, waiter *background.Launcher, stderr io.Writer) int {
	if err := child.SetCloexecAll(); err != nil {
		fmt.Fprintf(stderr, "pmcd: descriptors may leak into agents: %v\n", err)
	}
	env := systemd.TakeEnv()
	given, err := systemd.Sockets(env, os.Getpid())
	if err != nil {
		opt.Warn("%v", err)
	}
	var out *logging.File // nil: there is no log yet
	var log *zap.Logger
	fail := func(err error) int {
		if out == nil {
			fmt.Fprintf(stderr, "pmcd: %v\n", err)
			cli.NotStarted(stderr)
		} else {
			log.Error(err.Error())
			cli.NotStarted(out.Output)
		}
		waiter.ReportFailure(err, opt.FailureFile, out)
		return cli.ExitError
	}
	alone := opt.StandAlone()
	var id *privsep.Identity // nil: the user stays the same
	var notify *systemd.Notifier
	if !alone {
		if notify, err = systemd.NewNotifier(env); err != nil {
			opt.Warn("%v", err)
		}
		if id, err = privsep.RunAs(opt.User, os.Geteuid(), os.Getenv); err != nil {
			return fail(err)
		}
	}
	var defaults *daemon.Embedded
	if opt.Embedded {
		var err error
		if defaults, err = embedded.Load(opt.ReqAuth); err != nil {
			return fail(err)
		}
		opt.PlaceFiles("/", os.Geteuid(), os.Getenv)
	}
	// A log that nobody reads any more is not the end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	listeners, err := daemon.Listen(opt.Interfaces, opt.Ports, opt.Socket, given...)
	if err != nil {
		return fail(err)
	}
	defer listeners.Close()
	for _, text := range listeners.Unbound() {
		opt.Warn("%s", text)
	}
	if opt.Backlog > 0 {
		if err := listeners.SetBacklog(opt.Backlog); err != nil {
			opt.Warn("PMCD_MAXPENDING: %v", err)
		}
	}
	var about []string
	if defaults != nil {
		about = embedded.Describe(defaults, listeners.Addrs())
		if opt.Log != "-" {
			for _, line := range append(about, "log: "+opt.Log) {
				fmt.Fprintln(stderr, "pmcd:", line)
			}
		}
	}
	out = logging.Open(opt.Log, opt.LogFormat, stderr)
	defer out.Finish()
	core := out.Core()
	log = zap.New(core)
	slog.SetDefault(slog.New(logging.NewSlogHandler(core)))
	for _, line := range about {
		log.Info(line)
	}
	for _, w := range opt.Warnings {
		log.Named("plain").Warn("Warning: " + w)
	}

	starter := child.NewStarter(nil)
	defer starter.Close()
	var helper *privsep.Helper
	var rights *privsep.Rights
	if id != nil && id.UID != 0 {
		if helper, err = privsep.StartHelper(opt.ConfigFile(), id, opt.EndWithRoot || notify != nil, log, out.Output); err != nil {
			return fail(err)
		}
		defer helper.Stop()
		rights = helper.Rights
	}
	agents := open.New(open.Config{Stderr: out.Output, Builtin: open.Builtin, Log: log, Starter: starter, Helper: helper})
	d, err := daemon.New(daemon.Config{
		ConfigFile:       opt.Config,
		Namespace:        opt.Namespace,
		LabelDir:         os.Getenv("PCP_SYSCONF_DIR"),
		Embedded:         defaults,
		Listeners:        listeners,
		PortableAcceptor: opt.PortableAcceptor,
		Watch:            opt.Watch,
		CredsRequired:    opt.ReqAuth,
		CertRequired:     opt.RemoteCert,
		MaxPDU:           opt.MaxPDU,
		MaxContexts:      opt.MaxContexts,
		MaxMetrics:       opt.MaxMetrics,
		RequestTimeout:   opt.Timeout,
		HandshakeTimeout: opt.HandshakeTimeout,
		LateGrace:        opt.LateGrace,
		NoRestart:        opt.NoRestart,
		Hostname:         opt.Hostname,
		ContainerHost:    agents.ContainerHost,
		Build:            version.Of(build),
		RunDir:           os.Getenv("PCP_RUN_DIR"),
		TmpDir:           os.Getenv("PCP_TMP_DIR"),
		Local:            opt.Local,
		TraceMask:        opt.Trace,
		Debug:            opt.Debug,
		Serving:          func() { waiter.Announce(notify) },
		Reloading:        notify.Reloading,
		Settled:          notify.Ready,
		Changed:          notify.Changed,
		Problems:         func() []string { return slices.Concat(opt.Mistakes, listeners.Unbound(), rights.Problems()) },
		AgentNote:        rights.Note,
		Open:             agents.Open,
		Log:              log,
	})
	if err != nil {
		return fail(err)
	}
	if !alone {
		path := opt.PIDFile(os.Getenv)
		if err := background.WritePIDFile(path); err != nil {
			return fail(err)
		}
		defer background.RemovePIDFile(path, log)
	}
	if id != nil {
		if err := d.Named(); err != nil { // read with the rights that this process has had
			return fail(err)
		}
		if err := id.Become(); err != nil {
			return fail(err)
		}
	}
	defer status.Serve(d, opt, version.Of(build), listeners.Addrs(), log)()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // ends with the program
		for sig := range signals {
			if sig == syscall.SIGHUP {
				d.Reload()
				continue
			}
			name := map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}[sig]
			log.Info("pmcd caught " + name + " from unknown process")
			notify.Stopping()
			cancel()
		}
	}()
	var rootEnded atomic.Bool
	if helper != nil {
		go helper.Watch(ctx, d.HealthChanged, func(why string) { // ends with ctx
			rootEnded.Store(true)
			notify.Ending(why)
			cancel()
		})
	}
	go notify.Watchdog(ctx, d.Beat) // ends with ctx
	if err := d.Run(ctx); err != nil {
		return fail(err)
	}
	if rootEnded.Load() {
		return cli.ExitError
	}
	return cli.ExitOK
}
