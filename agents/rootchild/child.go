package rootchild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/proc"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A Child is the root child as the daemon sees it. Its methods may be called
// from any goroutine.
type Child struct {
	conn conn
	cmd  *exec.Cmd     // nil in tests
	lost chan struct{} // closed when nothing more comes

	mu        sync.Mutex // guards the following
	last      uint32     // id
	asked     map[uint32]chan reply
	processes map[uint32]*Process
}

// A reply is what a request to start something gets, or a question.
type reply struct {
	p    *Process
	name string
	err  error
}

// ErrLost is why nothing can be started any more.
var ErrLost = errors.New("the process " + Name + " has ended: no agent can be started until pmcd is restarted")

// New starts the root child, which is the program at path with the name [Name]
// and args. It is for one that calls [Serve] with descriptor 3. Messages go to
// stderr.
func New(path string, args []string, stderr *os.File) (*Child, error) {
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
	child := newChild(c)
	child.cmd = cmd
	return child, nil
}

func newChild(c conn) *Child {
	child := &Child{conn: c, lost: make(chan struct{}),
		asked: make(map[uint32]chan reply), processes: make(map[uint32]*Process)}
	go child.listen() // ends with the connection
	return child
}

// Lost is closed when the root child has ended. What it has started may go on,
// but how that ends is not known.
func (c *Child) Lost() <-chan struct{} { return c.lost }

// Start has the process of an agent started, with stderr, a pipe, as its error
// output. If ctx ends before that is done, it is stopped when it is.
func (c *Child) Start(ctx context.Context, a *pmcdconf.Agent, stderr *os.File) (*Process, error) {
	r := c.request(ctx, message{kind: start, domain: uint32(a.Domain), digest: digest(a)}, stderr)
	return r.p, r.err
}

// HostName returns what the host is called in a container. An unknown container
// is an error, as is a host without pmdaroot.
func (c *Child) HostName(ctx context.Context, container string) (string, error) {
	r := c.request(ctx, message{kind: ask, text: container})
	return r.name, r.err
}

// request sends m, which gets an id, with files, and waits for the reply.
func (c *Child) request(ctx context.Context, m message, files ...*os.File) reply {
	answer := make(chan reply, 1)
	c.mu.Lock()
	c.last++
	m.id = c.last
	c.asked[m.id] = answer
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
func (c *Child) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asked, id)
}

// Close ends the root child and all that it has started, and waits for that
// until ctx ends.
func (c *Child) Close(ctx context.Context) {
	c.conn.CloseWrite()
	select {
	case <-c.lost:
	case <-ctx.Done():
	}
	c.conn.Close()
	if c.cmd != nil {
		done := make(chan struct{})
		go func() { // ends with the root child
			c.cmd.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// listen takes what the root child says.
func (c *Child) listen() {
	defer close(c.lost)
	for {
		m, files, err := c.conn.receive()
		if err != nil {
			closeAll(files)
			return
		}
		c.take(m, files)
	}
}

func (c *Child) take(m message, files []*os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, asked := c.asked[m.id]
	p := c.processes[m.id]
	switch {
	case m.kind == started:
		p := &Process{child: c, id: m.id, pid: int(m.pid), done: make(chan struct{}), gone: make(chan struct{})}
		if len(files) == 2 {
			p.Pipes = proc.NewPipes(files[0], files[1])
			files = nil
		}
		c.processes[m.id] = p
		if asked {
			answer <- reply{p: p}
			delete(c.asked, m.id)
		} else { // nobody waits for it any more
			go p.Stop(context.Background())
		}
	case m.kind == refused && asked:
		answer <- reply{err: errors.New(m.text)}
		delete(c.asked, m.id)
	case m.kind == named && asked:
		answer <- reply{name: m.text}
		delete(c.asked, m.id)
	case m.kind == ended && p != nil && !p.ended:
		p.ended, p.status = true, syscall.WaitStatus(m.status)
		close(p.done)
	case m.kind == gone && p != nil:
		delete(c.processes, m.id)
		close(p.gone)
	}
	closeAll(files)
}

// A Process is what the root child has started.
type Process struct {
	// Pipes are what the process reads and writes; nil if it was not given any.
	Pipes *proc.Pipes

	child  *Child
	id     uint32
	pid    int
	ended  bool // guarded by child.mu
	status syscall.WaitStatus
	done   chan struct{} // closed when it has ended, and status is set
	gone   chan struct{} // closed when it is stopped
}

// PID reports its process id.
func (p *Process) PID() int { return p.pid }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status reports how it ended. It is valid once Done is closed; 0 if nobody
// knows.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// stopWait is how long the root child may take to kill a process.
const stopWait = endTime + time.Second

// Stop ends the process as [proc.Process.Stop] does.
func (p *Process) Stop(ctx context.Context) {
	if p.Pipes != nil {
		p.Pipes.Close()
	}
	p.child.conn.send(message{kind: stop, id: p.id})
	select {
	case <-p.gone:
	case <-p.child.lost:
	case <-ctx.Done():
		p.child.conn.send(message{kind: stop, id: p.id, now: true})
		t := time.NewTimer(stopWait)
		defer t.Stop()
		select {
		case <-p.gone:
		case <-p.child.lost:
		case <-t.C:
		}
	}
	p.child.mu.Lock()
	defer p.child.mu.Unlock()
	delete(p.child.processes, p.id)
	if !p.ended { // without the root child nobody knows
		p.ended = true
		close(p.done)
	}
}
