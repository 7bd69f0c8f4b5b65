package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/pmdaroot"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A twin is an agent in this process, and the same agent as a process of root's
// for the clients that have chosen a container, which it takes root to look
// into. That process is there as long as there is such a client, and a while
// longer. What it cannot answer is PM_ERR_AGAIN: to the daemon it looks as if it
// were late.
//
// Any client may name a container that does not exist, so that costs little:
// without a pmdaroot there are no containers and no process is started, and
// otherwise one is started once a minute at most, whatever became of the one
// before.
//
// Those who have not chosen one do not notice.
type twin struct {
	*transport.Worker
	name  string // in messages
	start func(ctx context.Context) (*transport.Conn, error)
	log   *zap.Logger
	now   func() time.Time // time.Now, but for tests
	root  string           // pmdaroot's socket

	choosers atomic.Int32 // how many have chosen a container: len(chosen)

	starting sync.Mutex // held while the process is started; guards the following
	looked   time.Time  // when root was last looked for
	found    bool       // whether it was there

	mu      sync.Mutex // guards the following
	chosen  map[int32]transport.Notice
	link    *transport.Conn // nil if there is no process
	next    time.Time       // when it may be started again
	linger  time.Duration
	idle    *time.Timer // ends it when linger is over
	stopped bool
}

const (
	// twinRestart is the time from one start of the process of a twin to another.
	twinRestart = time.Minute
	// twinLook is how often pmdaroot is looked for.
	twinLook = time.Second
	// twinGrace is how long it may owe an answer until it is ended.
	twinGrace = time.Minute
	// twinLinger is how long it stays without clients.
	twinLinger = time.Minute
)

func newTwin(w *transport.Worker, name string, log *zap.Logger, start func(ctx context.Context) (*transport.Conn, error)) *twin {
	t := &twin{Worker: w, name: name, log: log, start: start, linger: twinLinger, now: time.Now, root: pmdaroot.Default(),
		chosen: make(map[int32]transport.Notice)}
	t.idle = time.AfterFunc(time.Hour, t.rest)
	t.idle.Stop()
	return t
}

// rest ends the process if it has no clients.
func (t *twin) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.chosen) == 0 && t.link != nil {
		t.retire(nil)
	}
}

// Send implements transport.Transport.
func (t *twin) Send(c *transport.Call) (transport.Reply, error) {
	if t.choosers.Load() == 0 {
		return t.Worker.Send(c)
	}
	t.mu.Lock()
	_, chosen := t.chosen[c.Origin.Client]
	t.mu.Unlock()
	if !chosen {
		return t.Worker.Send(c)
	}
	l, contained := t.up(c.Timeout)
	switch {
	case !contained:
		return t.Worker.Send(c) // it says that there is no such container
	case l == nil:
		return nil, transport.ErrLate
	}
	r, err := l.Send(c)
	if err != nil {
		return nil, t.failed(l, err)
	}
	return &twinReply{r, t, l}, nil
}

// A twinReply is a Reply of the process.
type twinReply struct {
	transport.Reply
	t *twin
	l *transport.Conn
}

// Recv implements transport.Reply.
func (r *twinReply) Recv(dst []byte) ([]byte, error) {
	b, err := r.Reply.Recv(dst)
	if err != nil {
		err = r.t.failed(r.l, err)
	}
	return b, err
}

// up returns the process, which is started if there is none; nil if that fails,
// or was tried less than a minute ago. contained reports whether there may be
// containers at all.
func (t *twin) up(patience time.Duration) (l *transport.Conn, contained bool) {
	t.starting.Lock()
	defer t.starting.Unlock()
	t.mu.Lock()
	if t.link != nil && t.link.Err() != nil {
		t.retire(t.link.Err())
	}
	l, wait := t.link, t.stopped || t.now().Before(t.next)
	t.mu.Unlock()
	if l != nil {
		return l, true
	}
	if !t.rooted() {
		return nil, false
	}
	if wait {
		return nil, true
	}
	if patience <= 0 {
		patience = twinGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := t.start(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = t.now().Add(twinRestart)
	if err != nil {
		t.log.Error(fmt.Sprintf("cannot start a process of agent %q for containers, next try in %v at the earliest: %s", t.name, twinRestart, transport.Reason(err)))
		return nil, true
	}
	for _, n := range t.chosen {
		l.Notify(n)
	}
	t.link = l
	t.log.Info(fmt.Sprintf("agent %q has a process for containers, pid %d", t.name, l.Process.PID()))
	switch {
	case t.stopped:
		t.retire(nil)
	case len(t.chosen) == 0:
		t.idle.Reset(t.linger)
	}
	return l, true
}

// rooted reports whether there is a pmdaroot: its socket is there. The answer is
// as of now or a second ago. The caller holds starting.
func (t *twin) rooted() bool {
	if now := t.now(); now.Sub(t.looked) >= twinLook {
		t.looked, t.found = now, listens(t.root)
	}
	return t.found
}

// listens reports whether a process listens at a path. Other users than root
// need not be able to see the file: the directory of PCP's packages is root's.
func listens(path string) bool {
	fi, err := os.Stat(path)
	if err == nil {
		return fi.Mode().Type() == fs.ModeSocket
	}
	if !errors.Is(err, fs.ErrPermission) {
		return false
	}
	f, err := os.Open("/proc/net/unix")
	if err != nil {
		return false
	}
	defer f.Close()
	// Num RefCount Protocol Flags Type St Inode Path, proc_net(5)
	for s := bufio.NewScanner(f); s.Scan(); {
		line, ok := bytes.CutSuffix(s.Bytes(), []byte(" "+path))
		if f := bytes.Fields(line); ok && len(f) == 7 && string(f[3]) == "00010000" { // __SO_ACCEPTCON
			return true
		}
	}
	return false
}

// failed is told why the process has no answer.
func (t *twin) failed(l *transport.Conn, err error) error {
	if errors.Is(err, transport.ErrLate) || errors.Is(err, transport.ErrNotReady) {
		if p, owes := l.Pending(); !owes || time.Since(p.Since) < twinGrace {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link == l {
		t.retire(err)
	}
	return transport.ErrLate
}

// retire ends the process, because of why if it should go on. The caller holds
// mu.
func (t *twin) retire(why error) {
	l := t.link
	t.link = nil
	go func() { // ends with the process
		l.Close()
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		l.Process.Stop(ctx)
		if why == nil {
			return
		}
		text := fmt.Sprintf("the process of agent %q for containers is down: %v", t.name, transport.Ended(l.Process.Status()))
		for _, line := range l.Process.StderrTail() {
			text += "\n    " + line
		}
		t.log.Error(text)
	}()
}

// Notify implements transport.Transport.
func (t *twin) Notify(n transport.Notice) {
	t.Worker.Notify(n)
	t.mu.Lock()
	defer t.mu.Unlock()
	_, was := t.chosen[n.Client]
	is := was && !n.End && n.Attrs == nil
	for _, a := range n.Attrs {
		is = is || a.Code == pdu.AttrContainer && len(a.Value) > 0
	}
	if is && n.Attrs != nil {
		t.chosen[n.Client] = n
	} else if !is {
		delete(t.chosen, n.Client)
	}
	t.choosers.Store(int32(len(t.chosen)))
	switch {
	case t.link == nil || !is && !was:
		return
	case is:
		t.link.Notify(n)
	default:
		t.link.Notify(transport.Notice{Client: n.Client, End: true})
	}
	if len(t.chosen) == 0 {
		t.idle.Reset(t.linger)
	}
}

// Close implements transport.Transport.
func (t *twin) Close() error {
	t.mu.Lock()
	t.stopped = true
	t.idle.Stop()
	if t.link != nil {
		t.retire(nil)
	}
	t.mu.Unlock()
	return t.Worker.Close()
}
