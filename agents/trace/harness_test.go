package trace

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/tracepdu"
)

// An agent is a trace agent that records what it gets.
type agent struct {
	testing.TB
	net.Listener
	greeting int32
	answer   func(d tracepdu.Data) (n int32, ok bool) // ok false closes the connection; n 0 is no answer

	mu    sync.Mutex
	got   []string
	conns []net.Conn
	wg    sync.WaitGroup
}

func startAgent(t testing.TB, configure ...func(*agent)) *agent {
	t.Helper()
	testutil.CheckGoroutines(t)
	a := &agent{TB: t, greeting: 1, answer: func(d tracepdu.Data) (int32, bool) { return int32(d.Kind), true }}
	var err error
	if a.Listener, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	for _, f := range configure {
		f(a)
	}
	a.wg.Go(a.acceptLoop)
	t.Cleanup(func() {
		a.Close()
		a.hangUp()
		a.wg.Wait()
	})
	return a
}

func (a *agent) acceptLoop() {
	for {
		c, err := a.Accept()
		if err != nil {
			return
		}
		a.mu.Lock()
		a.conns = append(a.conns, c)
		a.mu.Unlock()
		a.wg.Go(func() { a.serve(c) })
	}
}

func (a *agent) serve(c net.Conn) {
	defer c.Close()
	if a.greeting != 0 {
		c.Write(tracepdu.AppendACK(nil, 1, a.greeting))
	}
	in := bufio.NewReader(c)
	for {
		header, err := in.Peek(tracepdu.HeaderLen)
		if err != nil {
			return
		}
		n, err := tracepdu.Length(header)
		if err != nil {
			a.Error(err)
			return
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(in, b); err != nil {
			return
		}
		d, tag, err := tracepdu.ParseData(b)
		if err != nil {
			a.Error(err)
			return
		}
		a.mu.Lock()
		a.got = append(a.got, fmt.Sprintf("%d %s %g %v", d.Kind, tag, d.Value, d.Sync))
		a.mu.Unlock()
		answer, ok := a.answer(d)
		if !ok {
			return
		}
		if answer != 0 && d.Sync {
			c.Write(tracepdu.AppendACK(nil, 1, answer))
		}
	}
}

// hangUp closes all connections.
func (a *agent) hangUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.Close()
	}
	a.conns = nil
}

func (a *agent) received() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

// A clock is a time that only the test changes.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// client returns a Client of a, and its clock.
func (a *agent) client(o Options) (*Client, *clock) {
	addr := a.Addr().(*net.TCPAddr)
	o.Host, o.Port = addr.IP.String(), addr.Port
	k := &clock{t: time.Unix(1e9, 0)}
	c := newClient(o, k.now)
	a.Cleanup(func() { c.Close() })
	return c, k
}
