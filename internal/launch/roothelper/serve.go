package roothelper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Config is the configuration of the root helper. All of it was set while the
// daemon was root.
type Config struct {
	ConfigFile string           // pmcd.conf; "" is Embedded
	Embedded   []pmcdconf.Agent // the agents that are compiled in

	// BuiltIn reports whether the agent of a line is part of this program. It must
	// not be if the file of the line exists: then the file is checked like any other.
	// Nil means that there is no such agent.
	BuiltIn func(*pmcdconf.Agent) bool

	// TrustAll starts every agent with root's rights and accepts any
	// configuration file, as C pmcd does.
	TrustAll bool

	// Start starts the process of an agent. program is the path of its program,
	// Self if it is built in, or "" if the program has not been looked up. The
	// caller closes stderr, and the pipes, which are nil for a socket agent.
	Start func(a *pmcdconf.Agent, program string, stderr *os.File) (AgentProcess, *child.Pipes, error)

	// HostName returns the host name in a container, and ContainerProcess its first
	// process. They may be nil.
	HostName         func(container string) (string, error)
	ContainerProcess func(container string) (int, error)

	owner uint32 // for tests: a user whose files are trusted like those of root
}

// An AgentProcess is the process of an agent, as a child.Process is, or an agent that
// shares a process with others.
type AgentProcess interface {
	PID() int
	Done() <-chan struct{}      // closed when it has ended
	Status() syscall.WaitStatus // how; valid then
	Stop(ctx context.Context)   // ends it, at once when ctx ends; must be called
}

const (
	// maxProcesses is the most processes of one agent at a time. More than one is
	// needed because the previous process may not have ended yet.
	maxProcesses = 4
	// stopGrace is how long a process may take to stop before it is killed.
	stopGrace = 2 * time.Second
	// maxContainerRequests is the most requests about containers in progress at a time.
	maxContainerRequests = 16
	// maxContainerName is the longest name of a container, in bytes.
	maxContainerName = 255
)

// A server is the state of the root helper.
type server struct {
	cfg  Config
	conn conn

	configMu sync.Mutex              // held while the configuration file is checked and read
	agents   map[int]*pmcdconf.Agent // by domain, as last read; guarded by configMu

	containerSlots chan struct{} // has one element for each request about a container in progress

	mu           sync.Mutex          // guards the following
	processes    map[uint32]*process // by id
	perDomain    map[int]int         // number of processes by domain
	shuttingDown bool
	tasks        sync.WaitGroup
}

// A process is the process of a start message. It is in server.processes from the
// message until it has been stopped.
type process struct {
	domain int

	// Set when it has been started.
	p        AgentProcess
	exitSent chan struct{} // closed when the exited message was sent
	stopping bool
	ctx      context.Context // canceled when it must be killed
	kill     context.CancelFunc
}

// Serve runs the root helper for the daemon at the other end of socket. It returns
// when the daemon has closed its end and all agents have ended.
func Serve(socket *os.File, cfg Config) error {
	c, err := newConn(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	s := &server{cfg: cfg, conn: c,
		containerSlots: make(chan struct{}, maxContainerRequests),
		processes:      make(map[uint32]*process), perDomain: make(map[int]int)}
	err = s.run()
	s.shutdown()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) { // it was killed before it read all
		return nil
	}
	return err
}

// run handles the messages of the daemon until the connection ends.
func (s *server) run() error {
	for {
		m, files, err := s.conn.receive()
		switch {
		case errors.Is(err, errMessage), errors.Is(err, ErrDescriptors):
			closeAll(files)
			s.refuse(m.id, err)
			continue
		case err != nil:
			closeAll(files)
			return err
		}
		switch {
		case m.kind == msgStart && len(files) == 1:
			if err := s.reserve(m); err != nil {
				closeAll(files)
				s.refuse(m.id, err)
				continue
			}
			s.tasks.Go(func() {
				defer closeAll(files)
				if err := s.start(m, files[0]); err != nil {
					s.release(m.id)
					s.refuse(m.id, err)
				}
			})
		case m.kind == msgStop && len(files) == 0:
			s.stop(m.id, m.now)
		case m.kind == msgAskHostName && len(files) == 0:
			answerContainer(s, m, s.cfg.HostName, func(name string) message { return message{kind: msgHostName, text: name} })
		case m.kind == msgAskProcess && len(files) == 0:
			answerContainer(s, m, s.cfg.ContainerProcess, func(pid int) message { return message{kind: msgProcess, pid: uint32(pid)} })
		default:
			closeAll(files)
			s.refuse(m.id, fmt.Errorf("unexpected message of kind %d with %d descriptors", m.kind, len(files)))
		}
	}
}

// answerContainer answers a request about a container: it sends what reply makes of the
// result of ask, which may be nil.
func answerContainer[T any](s *server, q message, ask func(container string) (T, error), reply func(T) message) {
	switch {
	case ask == nil:
		s.refuse(q.id, errors.New("containers are not known"))
		return
	case q.text == "" || len(q.text) > maxContainerName:
		s.refuse(q.id, fmt.Errorf("the name of a container has 1 to %d bytes, not %d", maxContainerName, len(q.text)))
		return
	}
	select {
	case s.containerSlots <- struct{}{}:
	default:
		s.refuse(q.id, errors.New("too many requests about containers"))
		return
	}
	s.tasks.Go(func() {
		defer func() { <-s.containerSlots }()
		result, err := ask(q.text)
		if err != nil {
			s.refuse(q.id, err)
			return
		}
		m := reply(result)
		m.id = q.id
		s.conn.send(m)
	})
}

// refuse sends the reason why a request fails. Errors of send are ignored, here
// and elsewhere: when the connection has ended receive returns an error, too.
func (s *server) refuse(id uint32, err error) {
	var u *Untrusted
	if errors.As(err, &u) {
		s.conn.send(message{kind: msgUntrusted, id: id, text: u.encode()})
		return
	}
	s.conn.send(message{kind: msgRefused, id: id, text: err.Error()})
}

// start starts the process of an agent and sends its pipes to the daemon.
func (s *server) start(m message, stderr *os.File) error {
	// The reader of a socket, or a device, may trust what a process of root
	// writes.
	if fi, err := stderr.Stat(); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
		return errors.New("the file for its standard error output is not a pipe")
	}
	a, program, err := s.lookup(int(m.domain), m.digest)
	if err != nil {
		return err
	}
	p, pipes, err := s.cfg.Start(a, program, stderr)
	if err != nil {
		return err
	}
	exitSent := make(chan struct{})
	s.mu.Lock()
	pr := s.processes[m.id]
	pr.p, pr.exitSent = p, exitSent
	pr.ctx, pr.kill = context.WithCancel(context.Background())
	closing := s.shuttingDown
	s.mu.Unlock()

	var ends []*os.File
	if pipes != nil {
		ends = pipes.Files()
	}
	err = withFDs(ends, func(fds []int) error {
		return s.conn.send(message{kind: msgStarted, id: m.id, pid: uint32(p.PID())}, fds...)
	})
	if pipes != nil {
		pipes.Close() // the daemon has its copies
	}
	switch {
	case err != nil:
		s.refuse(m.id, err)
		s.stop(m.id, true)
	case closing:
		s.stop(m.id, false)
	}
	s.tasks.Go(func() {
		defer close(exitSent)
		<-p.Done()
		s.conn.send(message{kind: msgExited, id: m.id, status: uint32(p.Status())})
	})
	return nil
}

// stop stops a process. If now is set it kills the process at once.
func (s *server) stop(id uint32, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pr := s.processes[id]
	if pr == nil || pr.p == nil {
		return // it has been stopped already, or was never started
	}
	if now {
		pr.kill()
	}
	if pr.stopping {
		return
	}
	pr.stopping = true
	s.tasks.Go(func() {
		defer pr.kill()
		ctx, cancel := context.WithTimeout(pr.ctx, stopGrace)
		defer cancel()
		pr.p.Stop(ctx)
		select {
		case <-pr.p.Done():
			<-pr.exitSent
		default: // it is blocked in the kernel
		}
		s.release(id)
		s.conn.send(message{kind: msgStopped, id: id})
	})
}

// shutdown stops all agents when the connection has ended.
func (s *server) shutdown() {
	s.conn.Close()
	s.mu.Lock()
	s.shuttingDown = true // start stops a process that it is just starting
	ids := slices.Collect(maps.Keys(s.processes))
	s.mu.Unlock()
	for _, id := range ids {
		s.stop(id, false)
	}
	done := make(chan struct{})
	go func() { // ends when the tasks have ended, or with the program
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * stopGrace): // a process is blocked in the kernel
	}
}
