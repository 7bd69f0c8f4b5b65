package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/background"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/status"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// dropRights writes the PID file, makes the directories of the user, gives up the rights of root for those of the user, and
// protects the memory from other processes of the user. No agent runs yet. The memory is not
// protected with -f by root, whose agents are root and can read it in any case, nor from a
// debugger that has started pmcd. The name space is read afterwards, by run: its files can
// be those of other users, and #shell lines in them are executed.
func (s *server) dropRights() error {
	if !s.opt.StandAlone() {
		path := s.opt.PIDFile(os.Getenv)
		if err := background.WritePIDFile(path); err != nil {
			return err
		}
		s.onClose(func() { background.RemovePIDFile(path, s.log) })
	}
	shared, own := stateDirs()
	var errs []error
	if s.user != nil {
		errs = append(errs, s.user.MakeDirs(shared...))
		if err := s.user.Become(); err != nil {
			return err
		}
	}
	if !s.opt.StandAlone() {
		errs = append(errs, privsep.MakeOwnDirs(append(shared, own...)...))
	}
	if err := errors.Join(errs...); err != nil && s.user != nil { // else it may be a user's own pmcd
		s.log.Warn("{error}; without these directories ids of instances are not saved, and programs give no values to the agents mmv and pmproxy: make them and give them to {user}", "error", err, "user", s.user.Name)
	}
	if s.opt.StandAlone() && (os.Geteuid() == 0 || privsep.Traced()) {
		return nil
	}
	return privsep.ProtectMemory()
}

// stateDirs returns the directories that pmcd makes if they do not exist: those that root makes for
// the user, and those below them, where other users may write.
func stateDirs() (shared, own []string) {
	if vars, err := pcpconf.Dir("PCP_VAR_DIR"); err == nil {
		shared = append(shared, filepath.Join(vars, "config/pmda"))
	}
	if tmp, err := pcpconf.Dir("PCP_TMP_DIR"); err == nil {
		shared = append(shared, tmp)
		own = append(own, filepath.Join(tmp, "mmv"), filepath.Join(tmp, "pmproxy"))
	}
	return shared, own
}

// run serves clients until a signal, or the end of the root helper, ends the daemon.
func (s *server) run() error {
	stop := status.Serve(s.daemon, s.opt, version.Of(build), s.listeners.Addrs(), s.log)
	defer stop()
	go s.handleHangups()
	go s.watchCPUs() // ends with s.ctx
	if s.helper != nil {
		go s.helper.Watch(s.ctx, s.daemon.HealthChanged, func(why string) { // ends with s.ctx
			s.helperEnded.Store(true)
			s.notifier.Ending(why)
			s.end()
		})
	}
	go s.notifier.Watchdog(s.ctx, s.daemon.CheckLiveness) // ends with s.ctx
	return s.daemon.Run(s.ctx)
}

// handleHangups reloads at SIGHUP. It ends with the program.
func (s *server) handleHangups() {
	for range s.hangups {
		s.daemon.Reload()
	}
}

// endLimit is how long the end of pmcd may take, of which three seconds are usual.
const endLimit = 15 * time.Second

// limitEnd calls late if this process still runs endLimit after the end of ctx. Reads of files, and
// starts of agents, end only when their file systems answer.
func limitEnd(ctx context.Context, late func()) {
	context.AfterFunc(ctx, func() { time.AfterFunc(endLimit, late) })
}

// exitLate ends this process, which does not end by itself.
func (s *server) exitLate() {
	s.log.Error("pmcd has not ended within {waited}, perhaps because a file system does not answer; it exits now", "waited", endLimit)
	s.out.Finish()
	os.Exit(cli.ExitError)
}

// handleEnds ends this process at SIGTERM and SIGINT. It ends with the program.
func (s *server) handleEnds() {
	for sig := range s.ends {
		name := map[os.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT"}[sig]
		s.log.Info("pmcd caught {signal} from unknown process", "signal", name)
		s.notifier.Stopping()
		s.end()
	}
}
