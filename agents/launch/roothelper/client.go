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

	"github.com/gopcp/pmcd/pmcdconf"
)

// A Client is the root helper as the daemon sees it. Its methods may be called
// from any goroutine.
type Client struct {
	conn     conn
	cmd      *exec.Cmd     // nil in tests
	waitOnce sync.Once     // for cmd
	exited   chan struct{} // closed when cmd has ended and wait was called
	lost     chan struct{} // closed when nothing more comes

	mu        sync.Mutex // guards the following
	lastID    uint32     // id
	requests  map[uint32]*request
	processes map[uint32]*Process
}

// A request is one that was not replied to.
type request struct {
	pipes int // how many descriptors a process must come with
	reply chan reply
}

// A reply is what a request to start something gets, or a question.
type reply struct {
	process  *Process
	hostName string
	err      error
}

// ErrLost is why nothing can be started with root's rights any more.
var ErrLost = errors.New("the root helper (" + Name + ") has ended")

// Start starts the root helper, which is the program at path with the name [Name]
// and args. It is for one that calls [Serve] with descriptor 3. Messages go to
// stderr.
func Start(path string, args []string, stderr *os.File) (*Client, error) {
	c, socket, err := pair()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command(path)
	cmd.Args = append([]string{Name}, args...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	cmd.ExtraFiles = []*os.File{socket}
	// A key on the terminal is meant for pmcd.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot start %s: %w", Name, err)
	}
	client := newClient(c)
	client.cmd = cmd
	return client, nil
}

func newClient(c conn) *Client {
	client := &Client{conn: c, lost: make(chan struct{}), exited: make(chan struct{}),
		requests: make(map[uint32]*request), processes: make(map[uint32]*Process)}
	go client.receiveLoop() // ends with the connection
	return client
}

// Lost is closed when the root helper has ended, and with it what it has started:
// that gets SIGTERM, and its pipes are closed by Stop.
func (c *Client) Lost() <-chan struct{} { return c.lost }

// Start has the process of an agent started, with stderr, a pipe, as its error
// output. If ctx ends before that is done, it is stopped when it is. The error is
// an [*Untrusted] if the root helper does not start such an agent because others
// than root decide on what would be executed.
func (c *Client) Start(ctx context.Context, a *pmcdconf.Agent, stderr *os.File) (*Process, error) {
	pipes := 2
	if a.Kind == pmcdconf.Socket {
		pipes = 0
	}
	r := c.request(ctx, message{kind: msgStart, domain: uint32(a.Domain), digest: digest(a)}, pipes, stderr)
	return r.process, r.err
}

// HostName returns what the host is called in a container. An unknown container
// is an error, as is a host without pmdaroot.
func (c *Client) HostName(ctx context.Context, container string) (string, error) {
	r := c.request(ctx, message{kind: msgAskHostName, text: container}, 0)
	return r.hostName, r.err
}

// request sends m, which gets an id, with files, and waits for the reply. A
// process must come with that many pipes.
func (c *Client) request(ctx context.Context, m message, pipes int, files ...*os.File) reply {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.lastID++
	m.id = c.lastID
	c.requests[m.id] = &request{pipes, answer}
	c.mu.Unlock()
	err := withFDs(files, func(fds []int) error { return c.conn.send(m, fds...) })
	if err != nil {
		c.abandon(m.id)
		return reply{err: errors.Join(ErrLost, err)}
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
	case r := <-answer: // it came meanwhile
		return r
	default:
		return reply{err: err}
	}
}

// abandon has an answer come too late.
func (c *Client) abandon(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, id)
}

// Close ends the root helper and all that it has started, and waits for that
// until ctx ends.
func (c *Client) Close(ctx context.Context) {
	c.conn.CloseWrite()
	select {
	case <-c.lost:
	case <-ctx.Done():
	}
	c.conn.Close()
	c.waitExit(ctx)
}

// waitExit waits for the end of the process until ctx ends, and reports whether that
// has come.
func (c *Client) waitExit(ctx context.Context) bool {
	if c.cmd == nil {
		return false
	}
	c.waitOnce.Do(func() {
		go func() { // ends with the root helper
			c.cmd.Wait()
			close(c.exited)
		}()
	})
	select {
	case <-c.exited:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ended says how the root helper has ended, which Lost has said, to be put behind
// ErrLost. It waits no longer than patience.
func (c *Client) Ended(timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if !c.waitExit(ctx) {
		return ""
	}
	return fmt.Sprintf(" (%v)", c.cmd.ProcessState)
}

// receiveLoop takes what the root helper says.
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

// connectionLost is the connectionLost of the root helper, and of what it has started.
func (c *Client) connectionLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		p.setExitedLocked(0)
	}
	close(c.lost)
}

// handle does what m says, which came with files, or with err in place of some.
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
	case m.kind == msgExited && p != nil:
		p.setExitedLocked(syscall.WaitStatus(m.status))
	case m.kind == msgStopped && p != nil:
		delete(c.processes, m.id)
		close(p.stopped)
	}
	closeAll(files)
}
