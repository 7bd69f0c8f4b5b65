package roothelper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Client is the daemon's end of the connection to the root helper. Its methods
// may be called from any goroutine.
type Client struct {
	conn     conn
	cmd      *exec.Cmd     // nil in tests
	waitOnce sync.Once     // guards the call of cmd.Wait
	exited   chan struct{} // closed when cmd.Wait has returned
	lost     chan struct{} // closed when the connection has ended

	stopTimeout time.Duration // that the other process may take to kill that of an agent

	mu        sync.Mutex          // guards the following
	lastID    uint32              // of a message
	requests  map[uint32]*request // without a reply yet, by id
	processes map[uint32]*Process // by id
}

// A request waits for its reply.
type request struct {
	pipes int // number of descriptors that must come with the process
	reply chan reply
}

// A reply is the process, or the host name, or the error that a request gets.
type reply struct {
	process  *Process
	hostName string
	pid      int // of a container
	err      error
}

// ErrLost means that the root helper has ended, so that no more agents can be
// started with root's rights.
var ErrLost = errors.New("the root helper (" + Name + ") has ended")

// Start starts the root helper: the program at path with [Name] as argv[0] and
// with args. That program must call [Serve] with descriptor 3. Its output goes to
// stderr.
func Start(path string, args []string, stderr *os.File) (*Client, error) {
	c, socket, err := pair()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command(path)
	cmd.Args = append([]string{Name}, args...)
	cmd.Env = child.OneProc()
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.ExtraFiles = []*os.File{socket}
	// Terminal signals must not reach the root helper.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot start %s: %w", Name, err)
	}
	client := newClient(c, helperStopTimeout)
	client.cmd = cmd
	return client, nil
}

// Connect calls start with a socket for another process, which must call [Serve] with it,
// and returns a Client for that process, which may take stopTimeout to kill an agent. The
// process is the caller's: the Client does not wait for its end.
func Connect(start func(socket *os.File) error, stopTimeout time.Duration) (*Client, error) {
	c, socket, err := pair()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := start(socket); err != nil {
		c.Close()
		return nil, err
	}
	return newClient(c, stopTimeout), nil
}

func newClient(c conn, stopTimeout time.Duration) *Client {
	client := &Client{conn: c, stopTimeout: stopTimeout, lost: make(chan struct{}), exited: make(chan struct{}),
		requests: make(map[uint32]*request), processes: make(map[uint32]*Process)}
	go client.receiveLoop() // ends with the connection
	return client
}

// Lost returns a channel that is closed when the root helper has ended. Then the
// agents that it has started end, too: they get SIGTERM, and Stop closes their
// pipes.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Start starts the process of an agent. stderr, which must be a pipe, is its
// standard error output. If ctx ends first, the process is stopped as soon as it
// has been started. The error is an [*Untrusted] if a user other than root can
// change what would be executed: the root helper does not start such an agent.
func (c *Client) Start(ctx context.Context, a *pmcdconf.Agent, stderr *os.File) (*Process, error) {
	pipes := 2
	if a.Kind == pmcdconf.Socket {
		pipes = 0
	}
	r := c.request(ctx, message{kind: msgStart, domain: uint32(a.Domain), digest: digest(a)}, pipes, stderr)
	return r.process, r.err
}

// HostName returns the host name in a container, as pmdaroot knows it. It is an
// error if the container is unknown, or if pmdaroot does not run.
func (c *Client) HostName(ctx context.Context, container string) (string, error) {
	r := c.request(ctx, message{kind: msgAskHostName, text: container}, 0)
	return r.hostName, r.err
}

// ContainerProcess returns the first process of a container, as pmdaroot knows it. The
// errors are those of HostName.
func (c *Client) ContainerProcess(ctx context.Context, container string) (int, error) {
	r := c.request(ctx, message{kind: msgAskProcess, text: container}, 0)
	return r.pid, r.err
}

// request sends m with files and waits for the reply. It sets the id of m. The
// process that is started must come with pipes descriptors.
func (c *Client) request(ctx context.Context, m message, pipes int, files ...*os.File) reply {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.lastID++
	m.id = c.lastID
	c.requests[m.id] = &request{pipes, answer}
	c.mu.Unlock()
	err := withFDs(files, func(fds []int) error { return c.send(ctx, m, fds...) })
	if err != nil {
		c.abandon(m.id)
		return reply{err: err}
	}
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.lost:
		err = ErrLost
	}
	c.abandon(m.id)
	select {
	case r := <-answer: // it has arrived meanwhile
		return r
	default:
		return reply{err: err}
	}
}

// retryTime is how often send tries again.
const retryTime = 100 * time.Millisecond

// send sends m and the descriptors fds. A root helper that hangs does not read, and the socket
// becomes full: then send tries again until ctx ends, and returns the cause.
func (c *Client) send(ctx context.Context, m message, fds ...int) error {
	for {
		switch err := c.conn.trySend(m, fds...); {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EAGAIN):
			return errors.Join(ErrLost, err)
		}
		select {
		case <-time.After(retryTime):
		case <-c.lost:
			return ErrLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// abandon removes a request, whose reply is no longer waited for.
func (c *Client) abandon(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, id)
}

// Close ends the root helper and all agents that it has started. It waits for
// their end until ctx ends.
func (c *Client) Close(ctx context.Context) {
	c.conn.CloseWrite()
	select {
	case <-c.lost:
	case <-ctx.Done():
	}
	c.conn.Close()
	c.waitExit(ctx)
}

// receiveLoop handles the messages of the root helper.
func (c *Client) receiveLoop() {
	defer c.connectionLost()
	for {
		m, files, err := c.conn.receive()
		if err != nil && !errors.Is(err, ErrDescriptors) {
			closeAll(files)
			return
		}
		c.handle(m, files, err)
	}
}

// connectionLost marks the root helper and all processes as ended. Lost is closed first, so that
// the reason is known when the end of a process is.
func (c *Client) connectionLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.lost)
	for _, p := range c.processes {
		p.setExitedLocked(0, false)
	}
}

// handle handles the message m, which came with files. err is not nil if some of
// its descriptors did not arrive.
func (c *Client) handle(m message, files []*os.File, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer chan reply
	want := 0
	r, asked := c.requests[m.id]
	if asked {
		answer, want = r.reply, r.pipes
	}
	p := c.processes[m.id]
	switch {
	case m.kind == msgStarted:
		p := &Process{client: c, id: m.id, pid: int(m.pid), done: make(chan struct{}), stopped: make(chan struct{})}
		c.processes[m.id] = p
		if err == nil && asked {
			err = p.setPipes(files, want)
		}
		switch {
		case !asked: // the caller has stopped waiting
			go p.Stop(context.Background())
		case err != nil:
			go p.Stop(context.Background())
			answer <- reply{err: err}
		default:
			files = nil
			answer <- reply{process: p}
		}
		delete(c.requests, m.id)
	case m.kind == msgRefused && asked:
		answer <- reply{err: errors.New(m.text)}
		delete(c.requests, m.id)
	case m.kind == msgUntrusted && asked:
		u, err := parseUntrusted(m.text)
		if err == nil {
			err = u
		}
		answer <- reply{err: err}
		delete(c.requests, m.id)
	case m.kind == msgHostName && asked:
		answer <- reply{hostName: m.text}
		delete(c.requests, m.id)
	case m.kind == msgProcess && asked:
		answer <- reply{pid: int(m.pid)}
		delete(c.requests, m.id)
	case m.kind == msgExited && p != nil:
		p.setExitedLocked(syscall.WaitStatus(m.status), true)
	case m.kind == msgStopped && p != nil:
		delete(c.processes, m.id)
		close(p.stopped)
	}
	closeAll(files)
}
