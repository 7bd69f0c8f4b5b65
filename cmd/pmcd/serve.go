package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/logtext"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/background"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/status"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/systemd"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/daemon"
)

// A server is the process that serves clients. Its methods up to run are the steps of
// the start, in this order.
type server struct {
	opt      *cli.Options
	launcher *background.Launcher // nil if no process waits for this one
	stderr   io.Writer

	signals   chan os.Signal
	notifier  *systemd.Notifier // nil if there is no service manager
	inherited []*os.File        // sockets
	user      *privsep.Identity // that this process becomes; nil if its user stays the same
	defaults  *daemon.Embedded  // nil if there is a configuration

	listeners *daemon.Listeners
	out       *logging.File // nil as long as there is no log
	log       *slog.Logger
	helper    *privsep.Helper // nil if there is none
	daemon    *daemon.Daemon

	helperEnded atomic.Bool // and so this process ends
	closers     []func()    // called in reverse order at the end
}

// serve serves until a signal ends it, and returns the exit code.
func serve(opt *cli.Options, launcher *background.Launcher, stderr io.Writer) int {
	s := &server{opt: opt, launcher: launcher, stderr: stderr}
	defer s.close()
	for _, step := range []func() error{s.inherit, s.identify, s.listen, s.openLog, s.startHelper, s.newDaemon, s.dropRights, s.run} {
		if err := step(); err != nil {
			return s.fail(err)
		}
	}
	if s.helperEnded.Load() {
		return cli.ExitError
	}
	return cli.ExitOK
}

// onClose has f called by close.
func (s *server) onClose(f func()) { s.closers = append(s.closers, f) }

func (s *server) close() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

// fail reports that pmcd has not started because of err. It returns the exit code.
func (s *server) fail(err error) int {
	if s.out == nil {
		fmt.Fprintf(s.stderr, "pmcd: %v\n", err)
		cli.NotStarted(s.stderr)
	} else {
		s.log.Error("{error}", "error", err)
		cli.NotStarted(s.out.Output)
	}
	s.launcher.ReportFailure(err, s.opt.FailureFile, s.out)
	return cli.ExitError
}

// inherit takes what is for this process and must not be inherited by agents:
// descriptors, and the environment of a service manager.
func (s *server) inherit() error {
	if err := child.SetCloexecAll(); err != nil {
		fmt.Fprintf(s.stderr, "pmcd: descriptors may leak into agents: %v\n", err)
	}
	env := systemd.TakeEnv()
	var err error
	if s.inherited, err = systemd.Sockets(env, os.Getpid()); err != nil {
		s.opt.Warn("%v", err)
	}
	if s.opt.StandAlone() {
		return nil
	}
	if s.notifier, err = systemd.NewNotifier(env); err != nil {
		s.opt.Warn("%v", err)
	}
	return nil
}

// identify finds the user that this process becomes, and the places of its files.
func (s *server) identify() (err error) {
	if !s.opt.StandAlone() {
		if s.user, err = privsep.RunAs(s.opt.User, os.Geteuid(), os.Getenv); err != nil {
			return err
		}
	}
	if s.opt.Embedded {
		if s.defaults, err = embedded.Load(s.opt.ReqAuth); err != nil {
			return err
		}
		s.opt.PlaceFiles("/", os.Geteuid(), os.Getenv)
	}
	return nil
}

// listen opens the ports and the Unix domain socket. From here on signals wait for run.
func (s *server) listen() (err error) {
	// pmcd serves on when the reader of its log, a FIFO, has gone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s.signals = make(chan os.Signal, 8)
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	s.onClose(func() { signal.Stop(s.signals) })

	if s.listeners, err = daemon.Listen(s.opt.Interfaces, s.opt.Ports, s.opt.Socket, s.inherited...); err != nil {
		return err
	}
	s.onClose(func() { s.listeners.Close() })
	for _, text := range s.listeners.Unbound() {
		s.opt.Warn("%s", text)
	}
	if s.opt.Backlog > 0 {
		if err := s.listeners.SetBacklog(s.opt.Backlog); err != nil {
			s.opt.Warn("PMCD_MAXPENDING: %v", err)
		}
	}
	return nil
}

// openLog opens the log and writes the messages of the start so far to it.
func (s *server) openLog() error {
	var about []string
	if s.defaults != nil {
		about = embedded.Describe(s.defaults, s.listeners.Addrs())
		if s.opt.Log != "-" {
			for _, line := range append(about, "log: "+s.opt.Log) {
				fmt.Fprintln(s.stderr, "pmcd:", line)
			}
		}
	}
	s.out = logging.Open(s.opt.Log, s.opt.LogFormat, s.stderr)
	s.onClose(s.out.Finish)
	s.log = slog.New(logging.NewHandler(s.out.Core()))
	slog.SetDefault(s.log)
	for _, line := range about {
		s.log.Info(line)
	}
	for _, w := range s.opt.Warnings {
		s.log.Warn("Warning: {warning}", "warning", w, logtext.Bare())
	}
	return nil
}

// startHelper starts the root helper if this process becomes another user than root.
func (s *server) startHelper() (err error) {
	if s.user == nil || s.user.UID == 0 {
		return nil
	}
	if s.helper, err = privsep.StartHelper(context.Background(), s.opt.ConfigFile(), s.user, s.opt.EndWithRoot || s.notifier != nil, s.log, s.out.Output); err != nil {
		return err
	}
	s.onClose(s.helper.Stop)
	return nil
}

// newDaemon reads the configuration and starts no agent yet.
func (s *server) newDaemon() (err error) {
	opt := s.opt
	starter := child.NewStarter(nil)
	s.onClose(starter.Close)
	agents := open.New(open.Config{Stderr: s.out.Output, Builtin: open.Builtin, Log: s.log, Starter: starter, Helper: s.helper})
	var rights *privsep.Rights
	if s.helper != nil {
		rights = s.helper.Rights
	}
	s.daemon, err = daemon.New(context.Background(), daemon.Config{
		ConfigFile:       opt.Config,
		Namespace:        opt.Namespace,
		LabelDir:         os.Getenv("PCP_SYSCONF_DIR"),
		Embedded:         s.defaults,
		Listeners:        s.listeners,
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
		Serving:          func() { s.launcher.Announce(s.notifier) },
		Reloading:        s.notifier.Reloading,
		AgentsStarted:    s.notifier.Ready,
		Changed:          s.notifier.Changed,
		Problems:         func() []string { return slices.Concat(opt.Mistakes, s.listeners.Unbound(), rights.Problems()) },
		AgentNote:        rights.Note,
		Open:             agents.Open,
		Log:              s.log,
	})
	return err
}

// dropRights writes the PID file and gives up the rights of root for those of the user.
func (s *server) dropRights() error {
	if !s.opt.StandAlone() {
		path := s.opt.PIDFile(os.Getenv)
		if err := background.WritePIDFile(path); err != nil {
			return err
		}
		s.onClose(func() { background.RemovePIDFile(path, s.log) })
	}
	if s.user == nil {
		return nil
	}
	if err := s.daemon.LoadNames(context.Background()); err != nil { // which reads files that root may read
		return err
	}
	return s.user.Become()
}

// run serves clients until a signal, or the end of the root helper, ends the daemon.
func (s *server) run() error {
	stop := status.Serve(s.daemon, s.opt, version.Of(build), s.listeners.Addrs(), s.log)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.handleSignals(cancel)
	if s.helper != nil {
		go s.helper.Watch(ctx, s.daemon.HealthChanged, func(why string) { // ends with ctx
			s.helperEnded.Store(true)
			s.notifier.Ending(why)
			cancel()
		})
	}
	go s.notifier.Watchdog(ctx, s.daemon.CheckLiveness) // ends with ctx
	return s.daemon.Run(ctx)
}

// handleSignals reloads at SIGHUP and calls cancel at the other signals. It ends with
// the program.
func (s *server) handleSignals(cancel func()) {
	for sig := range s.signals {
		if sig == syscall.SIGHUP {
			s.daemon.Reload()
			continue
		}
		name := map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}[sig]
		s.log.Info("pmcd caught {signal} from unknown process", "signal", name)
		s.notifier.Stopping()
		cancel()
	}
}
