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
	"time"

	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Config is what the root helper goes by. All of it is from the time when the
// daemon was root.
type Config struct {
	ConfigFile string // pmcd.conf; "" for the agents in Embedded, which is compiled in
	Embedded   []pmcdconf.Agent

	// BuiltIn reports whether an agent whose dso line has this entry point is
	// part of this program, if the file does not exist. Nil is never.
	BuiltIn func(entry string) bool

	// TrustAll starts each agent with root's rights, and has every configuration
	// file for root's, as C pmcd does.
	TrustAll bool

	// Start starts the process of an agent. program is where its program was
	// found, Self if that is this one, or "". stderr is the caller's.
	Start func(a *pmcdconf.Agent, program string, stderr *os.File) (*child.Process, error)

	// HostName returns what the host is called in a container. Nil is not known.
	HostName func(container string) (string, error)

	owner uint32 // for tests: may own files as root may
}

const (
	// maxProcesses is how many there may be of one agent: the one before may
	// not have ended yet.
	maxProcesses = 4
	// stopGrace is how long it may take to stop all agents when the daemon has
	// gone, until they are killed.
	stopGrace = 2 * time.Second
	// maxHostNameRequests is how many are looked into at a time.
	maxHostNameRequests = 16
	// maxContainerName is more than the name of a container has, in bytes.
	maxContainerName = 255
)

// A server is the root helper.
type server struct {
	cfg  Config
	conn conn

	configMu sync.Mutex              // held while the file is read
	agents   map[int]*pmcdconf.Agent // by domain, as last read; guarded by reading

	hostNameSlots chan struct{} // has one for each that is looked into

	mu           sync.Mutex // guards the following
	processes    map[uint32]*process
	perDomain    map[int]int // of processes by domain
	shuttingDown bool
	tasks        sync.WaitGroup
}

// A process is what was started for an id. It is there from the request on, and
// gone when it is stopped.
type process struct {
	domain int

	// Of one that has been started.
	p        *child.Process // else nil
	exitSent chan struct{}  // closed when the daemon was told of its end
	stopping bool
	ctx      context.Context // ends when it must be killed
	kill     context.CancelFunc
}

// Serve is the root helper, for the daemon at the other end of socket. It returns
// when that has gone and all agents have ended.
func Serve(socket *os.File, cfg Config) error {
	c, err := newConn(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	s := &server{cfg: cfg, conn: c,
		hostNameSlots: make(chan struct{}, maxHostNameRequests),
		processes:     make(map[uint32]*process), perDomain: make(map[int]int)}
	err = s.run()
	s.shutdown()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// run does what the daemon asks for, until that ends.
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
			s.answerHostName(m.id, m.text)
		default:
			closeAll(files)
			s.refuse(m.id, fmt.Errorf("a message of kind %d with %d descriptors", m.kind, len(files)))
		}
	}
}

// answerHostName finds out what the host is called in a container.
func (s *server) answerHostName(id uint32, container string) {
	if s.cfg.HostName == nil || container == "" || len(container) > maxContainerName {
		s.refuse(id, errors.New("nobody can be asked about such a container"))
		return
	}
	select {
	case s.hostNameSlots <- struct{}{}:
	default:
		s.refuse(id, errors.New("there are too many questions"))
		return
	}
	s.tasks.Go(func() {
		defer func() { <-s.hostNameSlots }()
		name, err := s.cfg.HostName(container)
		if err != nil {
			s.refuse(id, err)
			return
		}
		s.conn.send(message{kind: msgHostName, id: id, text: name})
	})
}

// refuse says why something is not done. If the daemon has gone, receive says
// so; so it is with all that is sent.
func (s *server) refuse(id uint32, err error) {
	var u *Untrusted
	if errors.As(err, &u) {
		s.conn.send(message{kind: msgUntrusted, id: id, text: u.encode()})
		return
	}
	s.conn.send(message{kind: msgRefused, id: id, text: err.Error()})
}

// reserve makes room for one more process.
func (s *server) reserve(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	domain := int(m.domain)
	switch {
	case m.domain > pmcdconf.MaxDomain:
		return fmt.Errorf("no agent has domain %d", m.domain)
	case s.processes[m.id] != nil:
		return fmt.Errorf("there is a process %d already", m.id)
	case s.perDomain[domain] >= maxProcesses:
		return fmt.Errorf("there are %d processes of this agent already", maxProcesses)
	}
	s.processes[m.id] = &process{domain: domain}
	s.perDomain[domain]++
	return nil
}

// release undoes reserve.
func (s *server) release(id uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perDomain[s.processes[id].domain]--
	delete(s.processes, id)
}

// start starts a process and hands its pipes to the daemon.
func (s *server) start(m message, stderr *os.File) error {
	// Whoever reads a socket, or what a device does, may go by who has written.
	if fi, err := stderr.Stat(); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
		return errors.New("its error output is no pipe")
	}
	a, program, err := s.lookup(int(m.domain), m.digest)
	if err != nil {
		return err
	}
	p, err := s.cfg.Start(a, program, stderr)
	if err != nil {
		return err
	}
	told := make(chan struct{})
	s.mu.Lock()
	pr := s.processes[m.id]
	pr.p, pr.exitSent = p, told
	pr.ctx, pr.kill = context.WithCancel(context.Background())
	closing := s.shuttingDown
	s.mu.Unlock()

	var ends []*os.File
	if p.Pipes != nil {
		ends = p.Pipes.Files()
	}
	err = withFDs(ends, func(fds []int) error {
		return s.conn.send(message{kind: msgStarted, id: m.id, pid: uint32(p.PID())}, fds...)
	})
	if p.Pipes != nil {
		p.Pipes.Close() // the daemon has them now
	}
	switch {
	case err != nil:
		s.refuse(m.id, err)
		s.stop(m.id, true)
	case closing:
		s.stop(m.id, false)
	}
	s.tasks.Go(func() {
		defer close(told)
		<-p.Done()
		s.conn.send(message{kind: msgExited, id: m.id, status: uint32(p.Status())})
	})
	return nil
}

// stop ends a process: by itself if it wants to, or now.
func (s *server) stop(id uint32, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pr := s.processes[id]
	if pr == nil || pr.p == nil {
		return // it has gone, or was never there
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
		default: // the kernel holds it
		}
		s.release(id)
		s.conn.send(message{kind: msgStopped, id: id})
	})
}

// shutdown stops all agents, when the daemon is not there to do it.
func (s *server) shutdown() {
	s.conn.Close()
	s.mu.Lock()
	s.shuttingDown = true // what is being started is stopped when it is there
	ids := slices.Collect(maps.Keys(s.processes))
	s.mu.Unlock()
	for _, id := range ids {
		s.stop(id, false)
	}
	done := make(chan struct{})
	go func() { // ends with the tasks, or the program
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * stopGrace): // the kernel holds one
	}
}
