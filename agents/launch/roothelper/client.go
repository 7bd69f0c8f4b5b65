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
	conn conn
	cmd  *exec.Cmd     // nil in tests
	wait sync.Once     // for cmd
	over chan struct{} // closed when cmd has ended and wait was called
	lost chan struct{} // closed when nothing more comes

	mu        sync.Mutex // guards the following
	last      uint32     // id
	asked     map[uint32]*request
	processes map[uint32]*Process
}

// A request is one that was not replied to.
type request struct {
	pipes  int // how many descriptors a process must come with
	answer chan reply
}

// A reply is what a request to start something gets, or a question.
type reply struct {
	p    *Process
	name string
	err  error
}

// ErrLost is why nothing can be started with root's rights any more.
var ErrLost = errors.New("the root helper (" + Name + ") has ended")

// New starts the root helper, which is the program at path with the name [Name]
// and args. It is for one that calls [Serve] with descriptor 3. Messages go to
// stderr.
func New(path string, args []string, stderr *os.File) (*Client, error) {
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
	client := &Client{conn: c, lost: make(chan struct{}), over: make(chan struct{}),
		asked: make(map[uint32]*request), processes: make(map[uint32]*Process)}
	go client.listen() // ends with the connection
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
	r := c.request(ctx, message{kind: start, domain: uint32(a.Domain), digest: digest(a)}, pipes, stderr)
	return r.p, r.err
}

// HostName returns what the host is called in a container. An unknown container
// is an error, as is a host without pmdaroot.
func (c *Client) HostName(ctx context.Context, container string) (string, error) {
	r := c.request(ctx, message{kind: ask, text: container}, 0)
	return r.name, r.err
}

// request sends m, which gets an id, with files, and waits for the reply. A
// process must come with that many pipes.
func (c *Client) request(ctx context.Context, m message, pipes int, files ...*os.File) reply {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.last++
	m.id = c.last
	c.asked[m.id] = &request{pipes, answer}
	c.mu.Unlock()
	err := withFDs(files, func(fds []int) error { return c.conn.send(m, fds...) })
	if err != nil {
		c.forget(m.id)
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
	c.forget(m.id)
	select {
	case r := <-answer: // it came meanwhile
		return r
	default:
		return reply{err: err}
	}
}

// forget has an answer come too late.
func (c *Client) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, id)
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
	c.await(ctx)
}

// await waits for the end of the process until ctx ends, and reports whether that
// has come.
func (c *Client) await(ctx context.Context) bool {
	if c.cmd == nil {
		return false
	}
	c.wait.Do(func() {
		go func() { // ends with the root helper
			c.cmd.Wait()
			close(c.over)
		}()
	})
	select {
	case <-c.over:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ended says how the root helper has ended, which Lost has said, to be put behind
// ErrLost. It waits no longer than patience.
func (c *Client) Ended(patience time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !c.await(ctx) {
		return ""
	}
	return fmt.Sprintf(" (%v)", c.cmd.ProcessState)
}

// listen takes what the root helper says.
func (c *Client) listen() {
	defer c.end()
	for {
		m, files, err := c.conn.receive()
		if err != nil && !errors.Is(err, ErrDescriptors) {
			closeAll(files)
			return
		}
		c.take(m, files, err)
	}
}

// end is the end of the root helper, and of what it has started.
func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		p.endLocked(0)
	}
	close(c.lost)
}

// take does what m says, which came with files, or with err in place of some.
func (c *Client) take(m message, files []*os.File, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer chan reply
	want := 0
	r, asked := c.asked[m.id]
	if asked {
		answer, want = r.answer, r.pipes
	}
	p := c.processes[m.id]
	switch {
	case m.kind == started:
		p := &Process{client: c, id: m.id, pid: int(m.pid), done: make(chan struct{}), gone: make(chan struct{})}
		c.processes[m.id] = p
		if err == nil && asked {
			err = p.takePipes(files, want)
		}
		switch {
		case !asked: // the caller has stopped waiting
			go p.Stop(context.Background())
		case err != nil:
			go p.Stop(context.Background())
			answer <- reply{err: err}
		default:
			files = nil
			answer <- reply{p: p}
		}
		delete(c.asked, m.id)
	case m.kind == refused && asked:
		answer <- reply{err: errors.New(m.text)}
		delete(c.asked, m.id)
	case m.kind == untrusted && asked:
		u, err := parseUntrusted(m.text)
		if err == nil {
			err = u
		}
		answer <- reply{err: err}
		delete(c.asked, m.id)
	case m.kind == named && asked:
		answer <- reply{name: m.text}
		delete(c.asked, m.id)
	case m.kind == ended && p != nil:
		p.endLocked(syscall.WaitStatus(m.status))
	case m.kind == gone && p != nil:
		delete(c.processes, m.id)
		close(p.gone)
	}
	closeAll(files)
}
