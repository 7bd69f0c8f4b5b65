package shared

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A RunFunc serves an agent until ctx ends or pmcd closes stdin, and returns the exit code.
// It closes stdin and stdout.
type RunFunc func(ctx context.Context, a *pmcdconf.Agent, stdin, stdout, stderr *os.File) int

// Serve runs agents by run for the [Host] at the other end of socket, and returns when that
// has closed its end and all agents have ended. At SIGTERM it ends the agents and then the
// process, by the same signal. cfg is that of the root helper; Serve sets Start.
func Serve(socket *os.File, cfg roothelper.Config, run RunFunc) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := &server{run: run, sharable: cfg.BuiltIn, ctx: ctx, exit: os.Exit}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	defer signal.Stop(terminate)
	go func() {
		select {
		case <-terminate:
			s.end(cancel)
			signal.Reset(syscall.SIGTERM)
			syscall.Kill(os.Getpid(), syscall.SIGTERM)
		case <-ctx.Done():
		}
	}()
	cfg.Start = s.start
	return roothelper.Serve(socket, cfg)
}

// A server is the state of the shared process.
type server struct {
	run      RunFunc
	sharable func(*pmcdconf.Agent) bool
	ctx      context.Context // of all agents
	exit     func(code int)

	mu     sync.Mutex     // guards the following: start must not add to agents during Wait
	ending bool           // start no more agents
	agents sync.WaitGroup // that run
}

// end cancels the context of all agents and waits until they have ended: for at most the
// time that run takes to give up an agent.
func (s *server) end(cancel context.CancelFunc) {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	cancel()
	s.agents.Wait()
}

// start starts an agent on a goroutine. It is the Start function of a roothelper.Config.
func (s *server) start(a *pmcdconf.Agent, _ string, stderr *os.File) (roothelper.AgentProcess, *child.Pipes, error) {
	if !s.sharable(a) {
		return nil, nil, fmt.Errorf("agent %q (dom %d) does not share a process", a.Name, a.Domain)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return nil, nil, fmt.Errorf("%s is ending", Name)
	}
	log, err := duplicate(stderr) // the caller closes stderr
	if err != nil {
		return nil, nil, err
	}
	pipes, in, out, err := child.MakePipes()
	if err != nil {
		log.Close()
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	g := &goroutine{name: a.Name, log: log, cancel: cancel, exit: s.exit, done: make(chan struct{})}
	s.agents.Go(func() {
		defer cancel()
		g.status = syscall.WaitStatus(s.run(ctx, a, in, out, log) << 8)
		if s.ctx.Err() != nil { // the process is ending
			g.status = syscall.WaitStatus(syscall.SIGTERM)
		}
		log.Close()
		close(g.done)
	})
	return g, pipes, nil
}

// duplicate returns another descriptor for f.
func duplicate(f *os.File) (*os.File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if err2 := raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 3) }); err2 != nil {
		return nil, err2
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// A goroutine is an agent in this process. It implements roothelper.AgentProcess.
type goroutine struct {
	name   string
	log    *os.File
	cancel context.CancelFunc
	exit   func(code int) // ends this process
	status syscall.WaitStatus
	done   chan struct{} // closed when status is set
}

func (g *goroutine) PID() int { return os.Getpid() }

func (g *goroutine) Done() <-chan struct{} { return g.done }

func (g *goroutine) Status() syscall.WaitStatus { return g.status }

// lastGrace is how long an agent may take to end when its context of Stop has ended.
const lastGrace = 500 * time.Millisecond

// Stop ends the agent. If it does not end, Stop ends this process, because nothing else
// ends a goroutine.
func (g *goroutine) Stop(ctx context.Context) {
	g.cancel()
	select {
	case <-g.done:
		return
	case <-ctx.Done():
	}
	t := time.NewTimer(lastGrace)
	defer t.Stop()
	select {
	case <-g.done:
	case <-t.C:
		fmt.Fprintf(g.log, "%s(%d) Error: agent %q does not end: all agents of this process end with it\n", Name, os.Getpid(), g.name)
		g.exit(exitHung)
	}
}

// exitHung is the exit code of the process if an agent in it does not end.
const exitHung = 3
