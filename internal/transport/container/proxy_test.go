package container_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/container"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// A agent has one metric. Its value is that of the agent plus the length
// of the name of the client's container.
type agent struct {
	value        uint32
	panics       atomic.Bool
	waits        atomic.Bool      // until the end of the call's context
	containers   map[int32]string // by client
	notConnected *atomic.Bool     // to pmdaroot
}

var metric = pdu.NewPMID(60, 0, 0)

func newAgent(value uint32) *agent {
	return &agent{value: value, containers: make(map[int32]string)}
}

func (*agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != metric {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a *agent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if a.panics.Load() {
		panic("ouch")
	}
	if a.waits.Load() {
		<-ctx.Done()
	}
	if a.notConnected != nil && a.notConnected.Load() {
		return pdu.ErrnoNotConn
	}
	for _, id := range r.PMIDs {
		if id != metric {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, a.value+uint32(len(a.containers[r.Origin.Client])))
	}
	return nil
}

func (a *agent) SetAttr(client int32, attr pdu.Attr) {
	if attr.Code == pdu.AttrContainer {
		a.containers[client] = string(attr.Value)
	}
}

func (a *agent) EndContext(client int32) { delete(a.containers, client) }

// fakeProcess is a process that ends when its Transport does.
type fakeProcess struct{ t transport.Transport }

func (p fakeProcess) PID() int                   { return 4711 }
func (p fakeProcess) Done() <-chan struct{}      { return p.t.Done() }
func (p fakeProcess) Status() syscall.WaitStatus { return 9 }
func (p fakeProcess) Stop(context.Context)       {}
func (p fakeProcess) StderrTail() []string       { return []string{"the last line"} }

// logLines is a slog.Handler that keeps the lines of the log.
type logLines struct {
	blocks atomic.Pointer[chan struct{}] // not nil if a line waits until it is closed

	mu    sync.Mutex // guards lines: the process ends on a goroutine of its own
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	text, _ := logtext.Append(nil, r.Message, logtext.Scope{}.Attrs(r))
	l.add(string(text))
	if c := l.blocks.Load(); c != nil {
		<-*c
	}
	return nil
}

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *logLines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// A harness is a Proxy whose agent has the value 100 in this
// process and 200 in the other.
type harness struct {
	*container.Proxy
	t            *testing.T
	starts       atomic.Int32
	fail         atomic.Bool
	other        atomic.Pointer[agent]
	conn         atomic.Pointer[transport.Conn] // to the process that was started last
	log          logLines
	rootless     atomic.Bool  // there is no pmdaroot
	notConnected atomic.Bool  // the agent in this process is not
	asked        atomic.Int32 // how often it was asked whether a container exists
	clock        atomic.Int64 // how far it was put forward
}

func newHarness(t *testing.T, idle time.Duration) *harness {
	r := &harness{t: t}
	own := newAgent(100)
	own.notConnected = &r.notConnected
	began := time.Now()
	r.Proxy = container.New(transport.Local(own), container.Options{
		Name: "box",
		Log:  slog.New(&r.log),
		Start: func(context.Context) (*transport.Conn, error) {
			r.starts.Add(1)
			if r.fail.Load() {
				return nil, errors.New("no process")
			}
			other := newAgent(200)
			r.other.Store(other)
			w := transport.Local(other)
			conn := &transport.Conn{Transport: w, Process: fakeProcess{w}}
			r.conn.Store(conn)
			return conn, nil
		},
		Available: func() bool { return !r.rootless.Load() },
		Exists: func(_ context.Context, name string) bool {
			r.asked.Add(1)
			return !strings.HasPrefix(name, "made-up")
		},
		StopTimeout: time.Second,
		IdleTimeout: idle,
		Now:         func() time.Time { return began.Add(time.Duration(r.clock.Load())) },
	})
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *harness) choose(client int32, name string) {
	r.Notify(transport.Notice{Client: client, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}, {Code: pdu.AttrContainer, Value: []byte(name)}}})
}

// fetch returns the value that a client gets.
func (r *harness) fetch(client int32) (uint32, error) {
	var res pdu.Result
	err := transporttest.Do(r, agents.Origin{Client: client}, &pdu.Fetch{PMIDs: []pdu.PMID{metric}}, &res)
	if err != nil {
		return 0, err
	}
	return res.Sets[0].Values[0].Word, nil
}

func (r *harness) want(client int32, want uint32) {
	r.t.Helper()
	if got, err := r.fetch(client); got != want || err != nil {
		r.t.Errorf("client %d: got %d, %v, want %d", client, got, err, want)
	}
}

// wantStarts checks how often a process was started.
func (r *harness) wantStarts(want int32) {
	r.t.Helper()
	if n := r.starts.Load(); n != want {
		r.t.Errorf("%d starts, want %d", n, want)
	}
}

// A client that has chosen a container is served by the process, which knows the
// container; other clients are served here.
func TestProxy(t *testing.T) {
	r := newHarness(t, 0)
	transporttest.Test(t, r, metric)
	r.Notify(transport.Notice{Client: 1, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}}})
	r.want(1, 100)
	r.choose(2, "box")
	r.wantStarts(0) // no request yet
	r.want(2, 203)
	r.want(1, 100)
	r.choose(0, "box")
	transporttest.Test(t, r, metric)
	r.choose(0, "")
	r.choose(3, "crate")
	r.want(3, 205)
	r.choose(2, "")
	r.want(2, 100)
	r.want(3, 205)
	if got := r.other.Load().containers; len(got) != 1 {
		t.Errorf("the process has the clients %v", got)
	}
	r.Notify(transport.Notice{Client: 3, End: true, Attrs: []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte("ab")}}})
	r.want(3, 202)
	r.Notify(transport.Notice{Client: 3, End: true})
	r.want(3, 100)
	r.choose(3, "box")
	r.want(3, 203)
	r.wantStarts(1) // it stays for a while without clients
	r.Close()
	<-r.conn.Load().Done()
	for client := range int32(4) {
		if _, err := r.fetch(client); err != transport.ErrClosed {
			t.Errorf("client %d after Close: %v, want %v", client, err, transport.ErrClosed)
		}
	}
}

// Close ends a call of the process with ErrClosed, as it ends others.
func TestProxyCloseDuringCall(t *testing.T) {
	r := newHarness(t, 0)
	r.choose(2, "box")
	r.want(2, 203)
	r.other.Load().waits.Store(true)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metric}})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := r.Send(&transport.Call{Origin: agents.Origin{Client: 2}, Req: req})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := reply.Recv(nil); err != transport.ErrClosed {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

// The process ends when it has had no client for IdleTimeout, and is started again
// for the next one.
func TestProxyIdle(t *testing.T) {
	r := newHarness(t, -1)
	r.choose(3, "box")
	r.want(3, 203)
	r.Notify(transport.Notice{Client: 3, End: true})
	<-r.conn.Load().Done()
	r.choose(3, "box")
	r.want(3, 203) // at once
	r.wantStarts(2)
}

// The end of the process costs the clients that wait for it, and no others.
func TestProxyFails(t *testing.T) {
	r := newHarness(t, 0)
	r.choose(2, "box")
	r.fail.Store(true)
	for range 2 {
		if _, err := r.fetch(2); err != transport.ErrLate {
			t.Errorf("without a process: %v", err)
		}
	}
	r.wantStarts(1)
	r.want(1, 100)
	r.fail.Store(false)
	r.clock.Add(int64(10 * time.Second))
	r.want(2, 203)
	r.other.Load().panics.Store(true)
	if _, err := r.fetch(2); err != transport.ErrLate {
		t.Errorf("when the process ends: %v", err)
	}
	r.want(1, 100)
	r.clock.Add(int64(time.Minute))
	r.want(2, 203)

	// The next request finds that the process has ended meanwhile.
	r.conn.Load().Close()
	<-r.conn.Load().Done()
	r.clock.Add(int64(time.Minute))
	r.want(2, 203)
	r.wantStarts(4)
	for _, want := range []string{
		`cannot start a process of agent "box" for containers: no process; requests of clients that have chosen a container fail, next try in 10s at the earliest`,
		`agent "box" has a process for containers, pid 4711`,
		`the process of agent "box" for containers is down: `,
		"\n\t| the last line",
	} {
		testutil.Eventually(t, "in the log: "+want, func() bool { return r.log.has(want) })
	}
}

// Clients that invent names of containers have no process started, and do not stop it
// from being started for others.
func TestProxyOfUnknownContainers(t *testing.T) {
	r := newHarness(t, 0)
	for i := range int32(10) {
		r.choose(i, fmt.Sprint("made-up-", i))
		r.want(i, 109) // the agent in this process says that there is no such container
	}
	r.wantStarts(0)
	if n := r.asked.Load(); n != 10 {
		t.Errorf("pmdaroot was asked %d times, want 10", n)
	}
	r.notConnected.Store(true)
	if _, err := r.fetch(1); err != pdu.ErrnoNoContainer {
		t.Errorf("an agent that is not connected to pmdaroot: %v", err)
	}
	r.notConnected.Store(false)
	r.choose(20, "box")
	r.want(20, 203)
	r.want(1, 209) // as it runs, it says that there is none
	r.wantStarts(1)
	if n := r.asked.Load(); n != 12 {
		t.Errorf("pmdaroot was asked %d times, want 12", n)
	}
}

// A process that fails is started again every ten seconds.
func TestProxyStartsAgain(t *testing.T) {
	for _, what := range []string{"fails", "dies"} {
		t.Run(what, func(t *testing.T) {
			r := newHarness(t, 0)
			r.fail.Store(what == "fails")
			r.choose(2, "box")
			for range 240 { // a request each second for four minutes
				r.fetch(2)
				if conn := r.conn.Load(); conn != nil {
					conn.Close()
					<-conn.Done()
				}
				r.clock.Add(int64(time.Second))
			}
			r.wantStarts(24)
			// One that has run for ten seconds is started again at once.
			r.fail.Store(false)
			r.clock.Add(int64(10 * time.Second))
			r.want(2, 203)
			r.clock.Add(int64(10 * time.Second))
			conn, before := r.conn.Load(), r.starts.Load()
			conn.Close()
			<-conn.Done()
			r.want(2, 203)
			r.wantStarts(before + 1)
		})
	}
}

// Where there is no pmdaroot there are no containers, and no process is started
// for clients that ask for one.
func TestProxyWithoutPmdaroot(t *testing.T) {
	r := newHarness(t, 0)
	r.rootless.Store(true)
	r.choose(2, "box")
	r.want(2, 103)
	r.clock.Add(int64(time.Second))
	r.want(2, 103)
	r.wantStarts(0)
	r.rootless.Store(false)
	r.want(2, 103) // pmdaroot is looked for once a second
	r.clock.Add(int64(time.Second))
	r.want(2, 203)
	r.wantStarts(1)
}

// The caller is told before it waits for the start of the process.
func TestProxyBeforeWait(t *testing.T) {
	transporttest.TestBeforeWait(t, testutil.Eventually, []transporttest.Wait{
		{Name: "for the process", Start: func(t *testing.T, w *transporttest.Waiter) func() {
			start := make(chan struct{})
			proxy := container.New(transport.Local(newAgent(100)), container.Options{
				Name: "box", Log: slog.New(new(logLines)),
				Start: func(context.Context) (*transport.Conn, error) {
					<-start
					return nil, errors.New("no process")
				},
				Available: func() bool { return true },
				Exists:    func(context.Context, string) bool { return true },
			})
			proxy.Notify(transport.Notice{Client: 2, Attrs: []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte("box")}}})
			req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metric}})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := proxy.Send(&transport.Call{Origin: agents.Origin{Client: 2}, Req: req, Waiter: w})
				done <- err
			}()
			return func() {
				close(start)
				if err := <-done; err != transport.ErrLate {
					t.Errorf("got %v, want %v", err, transport.ErrLate)
				}
				proxy.Close()
			}
		}},
	})
}

// A caller does not wait for the process if it runs.
func TestProxyRuns(t *testing.T) {
	r, w := newHarness(t, 0), new(transporttest.Waiter)
	r.choose(2, "box")
	r.want(2, 203)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metric}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.Do(r, &transport.Call{Origin: agents.Origin{Client: 2}, Req: req, Waiter: w}, nil); err != nil {
		t.Fatal(err)
	}
	if n := w.Turns(); n != 0 {
		t.Errorf("the caller is told %d times that it waits", n)
	}
}

// Notify, which the acceptor calls, does not wait for the log.
func TestNotifyWhileTheLogBlocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails bool
		line  string
	}{
		{"the process has started", false, "has a process for containers"},
		{"it cannot be started", true, "cannot start a process"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, 0)
			r.fail.Store(tt.fails)
			released := make(chan struct{})
			r.log.blocks.Store(&released)
			var clients sync.WaitGroup
			defer clients.Wait()
			defer close(released)
			r.choose(2, "box")
			clients.Go(func() { r.fetch(2) })
			testutil.Eventually(t, "the line of the log", func() bool { return r.log.has(tt.line) })
			notified := make(chan struct{})
			go func() {
				defer close(notified)
				r.choose(3, "crate")
				r.Notify(transport.Notice{Client: 3, End: true})
			}()
			testutil.Eventually(t, "Notify returns", func() bool {
				select {
				case <-notified:
					return true
				default:
					return false
				}
			})
		})
	}
}
