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

	"github.com/gopcp/pmcd/cmd/pmcd/internal/background"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/grouplimit"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/systemd"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/saslhelper"
)

// A server is the process that serves clients. Its methods up to run are the steps of
// the start, in this order.
type server struct {
	opt      *cli.Options
	launcher *background.Launcher // nil if no process waits for this one
	stderr   io.Writer

	ctx       context.Context // ends when this process must end
	end       context.CancelFunc
	hangups   chan os.Signal    // SIGHUP, for run
	ends      chan os.Signal    // SIGTERM and SIGINT
	notifier  *systemd.Notifier // nil if there is no service manager
	inherited []*os.File        // sockets
	user      *privsep.Identity // that this process becomes; nil if its user stays the same
	defaults  *daemon.Embedded  // nil if there is a configuration

	listeners *daemon.Listeners
	out       *logging.File // nil as long as there is no log
	log       *slog.Logger
	helper    *privsep.Helper // nil if there is none
	cpus      int             // that this process may use; 0 if GOMAXPROCS is set
	daemon    *daemon.Daemon

	helperEnded atomic.Bool // and so this process ends
	closers     []func()    // called in reverse order at the end
}

// serve serves until a signal ends it, and returns the exit code.
func serve(opt *cli.Options, launcher *background.Launcher, stderr io.Writer) int {
	s := &server{opt: opt, launcher: launcher, stderr: stderr}
	s.ctx, s.end = context.WithCancel(context.Background())
	defer s.end()
	defer s.close()
	for _, step := range []func() error{s.inherit, s.identify, s.listen, s.openLog, s.startHelper, s.newDaemon, s.dropRights, s.run} {
		err := step()
		if err != nil && s.ctx.Err() != nil && errors.Is(err, context.Canceled) { // a signal during the start
			s.log.Info("pmcd Shutdown")
			return cli.ExitOK
		}
		if err != nil {
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
		s.log.Error("{error}", "error", err, logtext.Event("start_failed"))
		cli.NotStarted(s.out.Output)
	}
	s.launcher.ReportFailure(err, s.opt.FailureFile, s.out)
	if errors.As(err, new(*daemon.Mistake)) {
		return s.opt.MistakeCode()
	}
	return cli.ExitError
}

// inherit takes what is for this process and must not be inherited by agents:
// descriptors, and the environment of a service manager.
func (s *server) inherit() error {
	if err := child.SetCloexecAll(); err != nil {
		fmt.Fprintf(s.stderr, "pmcd: cannot set close-on-exec for all descriptors: %v; agents may inherit some\n", err)
	}
	env := systemd.TakeEnv()
	var errs []error
	s.inherited, errs = systemd.Sockets(env, os.Getpid())
	for _, err := range errs {
		s.opt.Mistake("{error}", "error", err, logtext.Event("inherited_socket_ignored"))
	}
	if s.opt.StandAlone() {
		return nil
	}
	var err error
	if s.notifier, err = systemd.NewNotifier(env); err != nil {
		s.opt.Warn("the service manager gets no notifications: {error}", "error", err)
	}
	return nil
}

// identify finds the user that this process becomes, and the places of its files.
func (s *server) identify() (err error) {
	if !s.opt.StandAlone() {
		if s.user, err = privsep.RunAs(s.opt.User, os.Geteuid(), os.Getenv); err != nil {
			return err
		}
		if s.user != nil && os.Getenv("PCP_USER") == "" { // agents of root have this process as a client
			os.Setenv("PCP_USER", s.user.Name)
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

// listen opens the ports and the Unix domain socket. From here on SIGHUP waits for run,
// and SIGTERM and SIGINT for openLog.
func (s *server) listen() (err error) {
	// Without this, SIGPIPE would end pmcd when it writes to standard output or error and the
	// reader of that pipe or FIFO has gone.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	s.hangups, s.ends = make(chan os.Signal, 8), make(chan os.Signal, 1)
	signal.Notify(s.hangups, syscall.SIGHUP)
	signal.Notify(s.ends, syscall.SIGTERM, syscall.SIGINT)
	s.onClose(func() {
		signal.Stop(s.hangups)
		signal.Stop(s.ends)
	})

	if s.listeners, err = daemon.Listen(s.opt.Interfaces, s.opt.Ports, s.opt.Socket, s.inherited...); err != nil {
		return err
	}
	s.onClose(func() { s.listeners.Close() })
	s.opt.Inherit(s.listeners.Inherited())
	for _, text := range s.listeners.Unbound() {
		s.opt.Warn("{error}", "error", text, logtext.Event("socket_not_opened"))
	}
	if s.opt.Backlog > 0 {
		if err := s.listeners.SetBacklog(s.opt.Backlog); err != nil {
			s.opt.Warn("PMCD_MAXPENDING: {error}", "error", err)
		}
	}
	return nil
}

// openLog opens the log and writes the messages of the start so far to it. From here on
// SIGTERM and SIGINT end this process.
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
	s.out = logging.Open(s.opt.Log, s.opt.LogFormat, s.opt.Foreground || s.opt.Managed, s.stderr)
	s.onClose(s.out.Finish)
	if s.out.Err != nil { // it is on the standard error output already
		s.opt.Mistakes = append(s.opt.Mistakes, s.out.Err.Error())
	}
	s.log = slog.New(logging.NewHandler(s.out.Core()))
	slog.SetDefault(s.log)
	for _, line := range about {
		s.log.Info(line, logtext.Event("embedded_defaults"))
	}
	if version.Limits != "" {
		s.log.Info(version.Limits, logtext.Event("static_build"))
	}
	for _, w := range s.opt.Warnings {
		s.log.Warn("Warning: "+w.Message, append(w.Attrs, logtext.Bare())...)
	}
	go s.handleEnds()
	limitEnd(s.ctx, s.exitLate)
	return nil
}

// startHelper starts the root helper if this process becomes another user than root.
func (s *server) startHelper() (err error) {
	if s.user == nil || s.user.UID == 0 {
		return nil
	}
	if s.helper, err = privsep.StartHelper(s.ctx, s.opt.ConfigFile(), s.user, s.opt.EndWithRoot || s.notifier != nil, s.log); err != nil {
		return err
	}
	s.onClose(s.helper.Stop)
	return nil
}

// newDaemon reads the configuration and starts no agent yet.
func (s *server) newDaemon() (err error) {
	s.useCPUs()
	opt := s.opt
	starter := child.NewStarter(nil)
	s.onClose(starter.Close)
	agents := open.New(open.Config{Builtin: open.Builtin, Log: s.log, Starter: starter, Helper: s.helper})
	limited := memoryIsLimited()
	memory := grouplimit.Memory("/")
	if part := daemon.PartOf(100, memory); part < 100 {
		s.log.Info("the control group may use {memory} bytes of memory, so the limits for clients are {percent} % of their defaults", "memory", memory, "percent", part)
	}
	var rights *privsep.Rights
	var ending <-chan struct{}
	var ids *idFiles
	if s.helper != nil { // a user who tries pmcd may not write the files, and need not know
		ids = newIDFiles(s.log)
		rights = s.helper.Rights
		if s.helper.EndDaemon {
			ending = s.helper.Lost()
		}
	}
	s.daemon, err = daemon.New(s.ctx, daemon.Config{
		Listeners: s.listeners,
		Files: daemon.Files{
			Conf:      opt.Config,
			Namespace: opt.Namespace,
			Labels:    os.Getenv("PCP_SYSCONF_DIR"),
			TLS:       opt.TLSConf,
			Embedded:  s.defaults,
			Watch:     opt.Watch,
		},
		Limits: daemon.Limits{
			PDU:          opt.MaxPDU,
			Contexts:     opt.MaxContexts,
			Metrics:      opt.MaxMetrics,
			Reply:        opt.MaxReply,
			ClientMemory: opt.ClientMemory,
			Memory:       memory,
			Relays:       opt.Relays,
		},
		Agents: daemon.Agents{
			Open:             agents.Open,
			RequestTimeout:   opt.Timeout,
			HandshakeTimeout: opt.HandshakeTimeout,
			LateGrace:        opt.LateGrace,
			NoRestart:        opt.NoRestart,
			Ending:           ending,
			Note:             rights.Note,
		},
		Security: daemon.Security{
			CredsRequired:    opt.ReqAuth,
			CertRequired:     opt.RemoteCert,
			NoClearPasswords: opt.NoClearPasswords,
			SASLHelper:       s.startSASLHelper(starter),
		},
		Host: daemon.Host{
			Name:          opt.Hostname,
			ContainerName: agents.ContainerHost,
			Build:         version.Of(build),
			RunDir:        os.Getenv("PCP_RUN_DIR"),
			TmpDir:        os.Getenv("PCP_TMP_DIR"),
			Local:         opt.Local,
		},
		Manager: daemon.Manager{
			Serving:   func() { s.launcher.Announce(s.notifier) },
			Reloading: s.notifier.Reloading,
			AgentsStarted: func(h daemon.Health) {
				adaptHeap()
				if !limited {
					limitMemory(s.daemon.Status().Limits, memory)
				}
				s.notifier.Ready(h)
			},
			Changed: s.notifier.Changed,
			Problems: func() []string {
				return slices.Concat(opt.Mistakes, s.out.Problems(), rights.Problems(), ids.Problems())
			},
		},
		Log:       s.log,
		TraceMask: opt.Trace,
		Debug:     opt.Debug,
	})
	if err == nil {
		s.out.OnChange(s.daemon.HealthChanged)
		ids.OnChange(s.daemon.HealthChanged)
	}
	return err
}

// startSASLHelper returns the function that starts the process for logins.
func (s *server) startSASLHelper(starter *child.Starter) func(sock *os.File, probe bool) (*child.Process, error) {
	opt := saslhelper.Options{Env: saslhelper.Environ(os.Getenv), Starter: starter}
	return func(sock *os.File, probe bool) (*child.Process, error) { return saslhelper.Start(opt, sock, probe) }
}
