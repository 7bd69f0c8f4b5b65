package daemon

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// ask is a request that needs no agent.
func (c *client) ask() {
	c.t.Helper()
	if got := show(c.do(&pdu.PMNSNames{Names: []string{"u.one"}})); got != "1 [241.0.1]" {
		c.t.Errorf("names: %s", got)
	}
}

// exclusive returns the number of the client in blocking-read mode, or -1.
func (r *harness) exclusive() int32 {
	for _, info := range r.sessions.Clients.Infos() {
		if c, _ := r.findAccepted(info.Number); c != nil && c.Exclusive() {
			return info.Number
		}
	}
	return -1
}

// twoProcessors makes sure that there is blocking-read mode.
func twoProcessors(t *testing.T) {
	if old := runtime.GOMAXPROCS(0); old == 1 {
		runtime.GOMAXPROCS(2)
		t.Cleanup(func() { runtime.GOMAXPROCS(old) })
	}
}

// socketKinds are the kinds of sockets that clients have. Each is read in a way of its
// own.
var socketKinds = []socketKind{{"tcp", false}, {"unix", false}, {"unix with descriptors", true}}

type socketKind struct {
	name   string
	rights bool // descriptors may be queued in it
}

// peeked reports whether a read from such a socket peeks for descriptors first.
func (k socketKind) peeked() bool { return k.rights || k.name == "unix" && !hasPassrights() }

// config is for a harness that has such sockets.
func (k socketKind) config(t *testing.T) func(*Config) {
	if k.rights {
		return withRights(t)
	}
	return nil
}

// dial returns a client with such a socket.
func (k socketKind) dial(r *harness) *client {
	if k.name == "tcp" {
		return r.dialTo("tcp", r.tcp, 0)
	}
	return r.dialTo("unix", r.unix, 0)
}

// What package conn has for blocking-read mode.
const (
	burstLength = 8                     // requests that lead into it
	longestStay = 64 * time.Millisecond // without a request
	shortPause  = longestStay / 4
)

// enter has c ask until it is in blocking-read mode.
func (r *harness) enter(c *client) (num int32) {
	c.t.Helper()
	twoProcessors(c.t)
	testutil.Eventually(c.t, "in blocking-read mode", func() bool {
		for range 2 * burstLength {
			c.ask()
		}
		num = r.exclusive()
		return num >= 0
	})
	return num
}

// awaitNonblocking waits until no client is in blocking-read mode.
func (r *harness) awaitNonblocking(t *testing.T) {
	t.Helper()
	testutil.Eventually(t, "no client is in blocking-read mode", func() bool { return !r.acceptor.Load().Stats().Exclusive })
	if r.exclusive() >= 0 {
		t.Error("no client is in blocking-read mode, and yet there is one")
	}
}

// A bigReplyAgent answers one fetch, when it may, with more than a socket takes.
type bigReplyAgent struct {
	enter, leave chan struct{}
}

const bigReplyLen = 20 << 20

func newBigReplyAgent() *bigReplyAgent {
	return &bigReplyAgent{make(chan struct{}), make(chan struct{})}
}

func (a *bigReplyAgent) play(c wire.Conn, _ []byte) {
	a.enter <- struct{}{}
	<-a.leave
	c.Write(bigReply())
	hold(c)
}

var bigReply = sync.OnceValue(func() []byte {
	vs := pdu.ValueSet{PMID: id(240, 1), Format: pdu.FormatBlock}
	text := bytes.Repeat([]byte("x"), 1<<20)
	for i := range int32(bigReplyLen >> 20) {
		vs.Values = append(vs.Values, pdu.Value{Inst: i, Type: pdu.MetricString, Block: text})
	}
	b, err := pdu.Append(nil, 0, &pdu.Result{Sets: []pdu.ValueSet{vs}})
	if err != nil {
		panic(err)
	}
	return b
})

// takes reads the reply with the values of a bigReplyAgent.
func (c *client) takes() {
	c.t.Helper()
	m, ok := c.recv().(*pdu.Result)
	if !ok || len(m.Sets) != 1 || len(m.Sets[0].Values) != bigReplyLen>>20 {
		c.t.Fatalf("got %.100s", fmt.Sprint(m))
	}
	for _, v := range m.Sets[0].Values {
		if len(bytes.Trim(v.Block, "x\x00")) > 0 {
			c.t.Fatalf("instance %d: %d bytes that are not what was sent", v.Inst, len(v.Block))
		}
	}
}

// Blocking-read mode ends in all ways, no client loses anything by it, and the next
// one can enter it.
func TestBlockingMode(t *testing.T) {
	request, err := pdu.Append(nil, 0, &pdu.PMNSNames{Names: []string{"u.one"}})
	if err != nil {
		t.Fatal(err)
	}
	fetch := &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}
	for _, tt := range []struct {
		name string
		then func(r *harness, a *bigReplyAgent, c, other *client, num int32)
		gone bool // c is, afterwards
	}{
		{"a pause", func(r *harness, _ *bigReplyAgent, c, _ *client, _ int32) { r.awaitNonblocking(c.t) }, false},
		{"a processor less", func(r *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			testutil.Eventually(c.t, "not in blocking-read mode", func() bool {
				c.ask()
				return !r.acceptor.Load().Stats().Exclusive
			})
		}, false},
		{"another client", func(r *harness, _ *bigReplyAgent, c, other *client, _ int32) {
			other.ask()
			c.ask()
			if r.acceptor.Load().Stats().Exclusive {
				c.t.Error("still in blocking-read mode")
			}
		}, false},
		{"a request in two pieces", func(r *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			c.sendBytes(request[:7])
			r.awaitNonblocking(c.t)
			c.sendBytes(request[7:])
			if got := show(c.recv()); got != "1 [241.0.1]" {
				c.t.Errorf("names: %s", got)
			}
		}, false},
		{"half a request", func(r *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			const timeout = 200 * time.Millisecond
			r.timeout.Store(int64(timeout))
			began := time.Now()
			c.sendBytes(append(append([]byte(nil), request...), request[:13]...))
			if got := show(c.recv()); got != "1 [241.0.1]" {
				c.t.Errorf("names: %s", got)
			}
			c.closed()
			if took := time.Since(began); took < timeout {
				c.t.Errorf("closed after %v", took)
			}
			r.awaitLogged(c.t, "in the middle of a PDU")
		}, true},
		{"nonsense", func(_ *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			c.sendBytes(word(0x80000000, 0x7004, 0))
			c.closed()
		}, true},
		{"a reply that is not taken", func(r *harness, a *bigReplyAgent, c, other *client, _ int32) {
			c.send(&pdu.Profile{}, fetch)
			<-a.enter
			close(a.leave)
			r.awaitNonblocking(c.t)
			other.ask()
			c.takes()
		}, false},
		{"refused while it waits", func(r *harness, _ *bigReplyAgent, c, _ *client, num int32) {
			r.refuse(num, pdu.ErrnoPermission)
			if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
				c.t.Errorf("got %s", got)
			}
			c.closed()
		}, true},
		{"refused before a reply that is not taken", func(r *harness, a *bigReplyAgent, c, _ *client, num int32) {
			c.send(&pdu.Profile{}, fetch)
			<-a.enter
			r.refuse(num, pdu.ErrnoPermission)
			close(a.leave)
			r.awaitNonblocking(c.t)
			c.takes()
			if got := show(c.recv()); got != "PM_ERR_PERMISSION" {
				c.t.Errorf("got %s", got)
			}
			c.closed()
		}, true},
		{"the end", func(_ *harness, _ *bigReplyAgent, c, _ *client, _ int32) { c.Conn.Close() }, true},
		{"the end of what it says", func(_ *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			c.sendBytes(append(append([]byte(nil), request...), request...))
			c.Conn.(interface{ CloseWrite() error }).CloseWrite()
			for range 2 {
				if got := show(c.recv()); got != "1 [241.0.1]" {
					c.t.Errorf("names: %s", got)
				}
			}
			c.closed()
		}, true},
		{"a reset", func(_ *harness, _ *bigReplyAgent, c, _ *client, _ int32) {
			if tcp, ok := c.Conn.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			c.sendBytes(bytes.Repeat(request, 10))
			c.Conn.Close()
		}, true},
		{"closed by us", func(r *harness, _ *bigReplyAgent, c, _ *client, num int32) {
			r.connection(num).Abort()
			c.closed()
		}, true},
		{"closed by us in the middle of a request", func(r *harness, _ *bigReplyAgent, c, _ *client, num int32) {
			c.sendBytes(request[:7])
			r.awaitNonblocking(c.t)
			r.connection(num).Abort()
			c.closed()
			if r.logged("already closed") {
				c.t.Error("it is in the log")
			}
		}, true},
	} {
		for _, kind := range socketKinds {
			t.Run(tt.name+"/"+kind.name, func(t *testing.T) {
				a := newBigReplyAgent()
				r := newHarness(t, kind.config(t), map[int]func(wire.Conn){240: script(240, pdu.TypeFetch, a.play)})
				r.awaitStarts()
				c, other := kind.dial(r), r.dial()
				tt.then(r, a, c, other, r.enter(c))
				r.awaitNonblocking(t)
				if tt.gone {
					testutil.Eventually(t, "it has gone", func() bool { return r.sessions.NumClients() == 1 })
				} else {
					r.enter(c)
					r.awaitNonblocking(t)
				}
				r.enter(other)
			})
		}
	}
}

// A client that pauses for a moment stays in blocking-read mode: it does not leave before
// longestStay is over.
func TestPauseInBlockingMode(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dial()
	testutil.Eventually(t, "still there after a pause", func() bool {
		since := time.Now() // the last request comes later
		s := r.enter(c)
		time.Sleep(shortPause)
		stayed := s == r.exclusive()
		if took := time.Since(since); !stayed && took < longestStay {
			t.Fatalf("left after %v", took)
		}
		c.ask()
		return stayed
	})
}

// A client that asks now and then does not stay there, however long its pauses are: each
// wait costs more than the request.
func TestFewRequestsInBlockingMode(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dial()
	r.enter(c)
	for range 40 {
		time.Sleep(shortPause)
		c.ask()
	}
	if r.exclusive() >= 0 {
		t.Error("still in blocking-read mode")
	}
}

// An urgent byte is dropped as it is outside blocking-read mode. Where descriptors may be
// queued it is a byte like others, since what is looked at must be what is taken.
func TestUrgentByteInBlockingMode(t *testing.T) {
	for _, kind := range socketKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := newHarness(t, kind.config(t), nil)
			c := kind.dial(r)
			raw, err := c.Conn.(syscall.Conn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			r.enter(c)
			raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), []byte("!"), unix.MSG_OOB, nil) })
			if err == unix.EOPNOTSUPP {
				t.Skip("there are none here")
			}
			if err != nil {
				t.Fatal(err)
			}
			if !kind.peeked() {
				c.ask()
				return
			}
			c.send(&pdu.PMNSNames{Names: []string{"u.one"}})
			c.closed() // the urgent byte is before the PDU, which makes no sense then
		})
	}
}

// The end of the daemon disconnects a client in blocking-read mode, too.
func TestShutdownInBlockingMode(t *testing.T) {
	for _, busy := range []bool{false, true} {
		t.Run(fmt.Sprintf("busy=%v", busy), func(t *testing.T) {
			r := newHarness(t, nil, nil)
			c := r.dial()
			r.enter(c)
			end := make(chan struct{})
			go func() {
				defer close(end)
				req, _ := pdu.Append(nil, 0, &pdu.PMNSNames{Names: []string{"u.one"}})
				for {
					if _, err := c.Conn.Write(req); err != nil && busy {
						return
					}
					if _, err := c.Receive(); err != nil {
						return
					}
				}
			}()
			r.stop()
			<-end
			if r.acceptor.Load().Stats().Exclusive {
				t.Error("a client is in blocking-read mode")
			}
		})
	}
}

// Without a descriptor to spare no client is accepted, and the others are served.
func TestBlockingModeWithoutDescriptors(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	c := r.dial()
	c.ask()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// As all below some number are in use, there is none.
	var files []int
	defer func() {
		for _, fd := range files {
			syscall.Close(fd)
		}
	}()
	for {
		fd, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fd)
		if fd > 200 {
			break
		}
	}
	limit := func(n uint64) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: old.Max}); err != nil {
			t.Fatal(err)
		}
	}
	limit(100)
	defer limit(old.Cur)
	for range 10 * burstLength {
		c.ask()
	}
	if r.acceptor.Load().Stats().Exclusive {
		t.Error("in blocking-read mode")
	}
	limit(old.Cur)
	r.enter(c)
}

// With one processor there is no blocking-read mode.
func TestBlockingModeOnOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	c := r.dial()
	for range 10 * burstLength {
		if c.ask(); r.acceptor.Load().Stats().Exclusive {
			t.Fatal("in blocking-read mode")
		}
	}
}
