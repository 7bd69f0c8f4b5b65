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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/launch/goplugin"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf"
)

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

func main() {
	if os.Args[0] == roothelper.Name {
		os.Exit(runRootHelper(os.Args[1:]))
	}
	if strings.HasPrefix(os.Args[0], agentPrefix) {
		os.Exit(runBuiltin(os.Args))
	}
	if filepath.Base(os.Args[0]) == ctlName {
		os.Exit(pmcdctl(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stderr))
}

// Exit codes. Help and an unknown option are 0, as scripts of PCP count on it,
// but for a service: see usageFailed.
const (
	exitOK    = 0
	exitError = 1
)

// run is the whole program but for its exit.
func run(args []string, stderr io.Writer) int {
	syscall.Umask(0o22) // agents get it too
	waiter, err := waiting()
	if err != nil {
		fmt.Fprintf(stderr, "pmcd: %v\n", err)
		return notStarted(stderr)
	}
	opt, err := parseOptions(args)
	var usage *usageError
	switch {
	case err != nil && opt.isService(err, os.Getenv):
		why := oneLine(err)
		opt.reportFailure(errors.New(why), nil, waiter)
		return usageFailed(why, stderr)
	case errors.Is(err, errHelp):
		fmt.Fprint(stderr, usageText)
		return exitOK
	case errors.Is(err, errVersion):
		fmt.Print(version.Text("pmcd", version.Of(build)))
		return exitOK
	case errors.As(err, &usage) && usage.harmless:
		fmt.Fprint(stderr, usage)
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprint(stderr, usage)
		notStarted(stderr)
		opt.reportFailure(errors.New(usage.short()), nil, waiter)
		return exitError
	}
	if !opt.named && withoutPCP("/", os.LookupEnv) {
		opt.embedded = true
	}
	if _, given := os.LookupEnv("PCP_VERSION"); opt.embedded && !given { // pcp.conf has it for agents
		os.Setenv("PCP_VERSION", pmcd.Version)
	}
	if !opt.embedded {
		if err := pmcdconf.SetPCPEnv(); err != nil && waiter == nil { // options may say all that is needed
			fmt.Fprintf(stderr, "pmcd: Warning: pcp.conf is not used: %v\n", err)
		}
	}
	// In daemon mode pmcd.log is where PCP's scripts look for it.
	if opt.log == "" && (opt.foreground || opt.managed) && logging.StderrIsJournal() {
		opt.log = "-"
	}
	err = opt.complete(os.Getenv)
	if opt.verify {
		return verify(opt, err, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "pmcd: %v\n", err)
		notStarted(stderr)
		opt.reportFailure(err, nil, waiter)
		return exitError
	}
	if waiter == nil && !opt.foreground && !opt.managed {
		return startInBackground(stderr)
	}
	return serve(opt, waiter, stderr)
}

func notStarted(stderr io.Writer) int {
	fmt.Fprintln(stderr, "pmcd not started due to errors!")
	return exitError
}

// serve opens the ports, then the log, and serves until a signal says not to.
// waiter waits for it to begin.
func serve(opt *options, waiter *launcher, stderr io.Writer) int {
	if err := child.SetCloexecAll(); err != nil {
		fmt.Fprintf(stderr, "pmcd: descriptors may leak into agents: %v\n", err)
	}
	env := takeManagerEnv()
	given, err := givenSockets(env, os.Getpid())
	if err != nil {
		opt.warn("%v", err)
	}
	var out *logging.File // nil: there is no log yet
	var log *zap.Logger
	fail := func(err error) int {
		if out == nil {
			fmt.Fprintf(stderr, "pmcd: %v\n", err)
			notStarted(stderr)
		} else {
			log.Error(err.Error())
			notStarted(out.Output)
		}
		opt.reportFailure(err, out, waiter)
		return exitError
	}
	alone := opt.foreground && !opt.managed // neither user nor files of a daemon, and nobody is told
	var id *identity                        // nil: who it is
	var notify *notifier
	if !alone {
		if notify, err = newNotifier(env); err != nil {
			opt.warn("%v", err)
		}
		if id, err = opt.runAs(os.Geteuid(), os.Getenv); err != nil {
			return fail(err)
		}
	}
	var embedded *daemon.Embedded
	if opt.embedded {
		var err error
		if embedded, err = loadEmbedded(opt.reqAuth); err != nil {
			return fail(err)
		}
		opt.placeFiles("/", os.Geteuid(), os.Getenv)
	}
	// A log that nobody reads any more is not the end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)

	listeners, err := daemon.Listen(opt.interfaces, opt.ports, opt.socket, given...)
	if err != nil {
		return fail(err)
	}
	defer listeners.Close()
	for _, text := range listeners.Unbound() {
		opt.warn("%s", text)
	}
	if opt.backlog > 0 {
		if err := listeners.SetBacklog(opt.backlog); err != nil {
			opt.warn("PMCD_MAXPENDING: %v", err)
		}
	}
	var about []string
	if embedded != nil {
		about = describe(embedded, listeners.Addrs())
		if opt.log != "-" {
			for _, line := range append(about, "log: "+opt.log) {
				fmt.Fprintln(stderr, "pmcd:", line)
			}
		}
	}
	out = logging.Open(opt.log, opt.logFormat, stderr)
	defer out.Finish()
	core := out.Core()
	log = zap.New(core)
	slog.SetDefault(slog.New(logging.NewSlogHandler(core)))
	for _, line := range about {
		log.Info(line)
	}
	for _, w := range opt.warnings {
		log.Named("plain").Warn("Warning: " + w)
	}

	agents := opener{stderr: out.Output, plugins: new(goplugin.Loader), builtin: builtin, log: log, said: new(sync.Map),
		starter: child.NewStarter(nil), endWithRoot: opt.endWithRoot || notify != nil}
	defer agents.starter.Close()
	if id != nil && id.uid != 0 {
		if err := agents.withRoot(opt, id, out.Output); err != nil {
			return fail(err)
		}
		defer closeRootHelper(agents.root)
	}
	d, err := daemon.New(daemon.Config{
		ConfigFile:       opt.config,
		Namespace:        opt.namespace,
		LabelDir:         os.Getenv("PCP_SYSCONF_DIR"),
		Embedded:         embedded,
		Listeners:        listeners,
		Watch:            opt.watch,
		CredsRequired:    opt.reqAuth,
		CertRequired:     opt.remoteCert,
		MaxPDU:           opt.maxPDU,
		MaxContexts:      opt.maxContexts,
		MaxMetrics:       opt.maxMetrics,
		RequestTimeout:   opt.timeout,
		HandshakeTimeout: opt.credsTimeout,
		LateGrace:        opt.lateGrace,
		NoRestart:        opt.noRestart,
		Hostname:         opt.hostname,
		ContainerHost:    agents.containerHost,
		Build:            version.Of(build),
		RunDir:           os.Getenv("PCP_RUN_DIR"),
		TmpDir:           os.Getenv("PCP_TMP_DIR"),
		Local:            opt.local,
		TraceMask:        opt.trace,
		Debug:            opt.debug,
		Serving:          func() { announce(notify, waiter) },
		Reloading:        notify.reloading,
		Settled:          notify.ready,
		Changed:          notify.changed,
		Problems:         func() []string { return slices.Concat(opt.mistakes, listeners.Unbound(), agents.rights.all()) },
		AgentNote:        agents.rights.note,
		Open:             agents.open,
		Log:              log,
	})
	if err != nil {
		return fail(err)
	}
	if !alone {
		path := opt.pidFile(os.Getenv)
		if err := writePIDFile(path); err != nil {
			return fail(err)
		}
		defer removePIDFile(path, log)
	}
	if id != nil {
		if err := d.Named(); err != nil { // read with the rights that this process has had
			return fail(err)
		}
		if err := id.become(); err != nil {
			return fail(err)
		}
	}
	defer serveStatus(d, opt, listeners.Addrs(), log)()
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
			notify.stopping()
			cancel()
		}
	}()
	var rootEnded atomic.Bool
	if agents.root != nil {
		go agents.watchRootHelper(ctx, d.HealthChanged, func(why string) { // ends with ctx
			rootEnded.Store(true)
			notify.ends(why)
			cancel()
		})
	}
	go notify.watch(ctx, d.Beat) // ends with ctx
	if err := d.Run(ctx); err != nil {
		return fail(err)
	}
	if rootEnded.Load() {
		return exitError
	}
	return exitOK
}
