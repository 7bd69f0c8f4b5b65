package transport_test

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
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/internal/testutil"
	"github.com/gopcp/pmcd/agents/logtext"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A containerAgent has one metric. Its value is that of the agent plus the length
// of the name of the client's container.
type containerAgent struct {
	value      uint32
	panics     atomic.Bool
	waits      atomic.Bool      // until the end of the call's context
	containers map[int32]string // by client
}

var containerMetric = pdu.NewPMID(60, 0, 0)

func newContainerAgent(value uint32) *containerAgent {
	return &containerAgent{value: value, containers: make(map[int32]string)}
}

func (*containerAgent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != containerMetric {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a *containerAgent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if a.panics.Load() {
		panic("ouch")
	}
	if a.waits.Load() {
		<-ctx.Done()
	}
	for _, id := range r.PMIDs {
		if id != containerMetric {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		w.Word(-1, a.value+uint32(len(a.containers[r.Origin.Client])))
	}
	return nil
}

func (a *containerAgent) SetAttr(client int32, attr pdu.Attr) {
	if attr.Code == pdu.AttrContainer {
		a.containers[client] = string(attr.Value)
	}
}

func (a *containerAgent) EndContext(client int32) { delete(a.containers, client) }

// fakeProcess is a process that ends when its Transport does.
type fakeProcess struct{ t transport.Transport }

func (p fakeProcess) PID() int                   { return 4711 }
func (p fakeProcess) Done() <-chan struct{}      { return p.t.Done() }
func (p fakeProcess) Status() syscall.WaitStatus { return 9 }
func (p fakeProcess) Stop(context.Context)       {}
func (p fakeProcess) StderrTail() []string       { return []string{"the last line"} }

// logLines is a slog.Handler that keeps the lines of the log.
type logLines struct {
	mu    sync.Mutex // guards lines: the process ends on a goroutine of its own
	lines []string
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }
func (l *logLines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logLines) WithGroup(string) slog.Handler            { return l }

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, _ := logtext.Append(nil, r.Message, logtext.Scope{}.Attrs(r))
	l.lines = append(l.lines, string(text))
	return nil
}

func (l *logLines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool { return strings.Contains(line, text) })
}

// A containerHarness is a ContainerProxy whose agent has the value 100 in this
// process and 200 in the other.
type containerHarness struct {
	*transport.ContainerProxy
	t        *testing.T
	starts   atomic.Int32
	fail     atomic.Bool
	other    atomic.Pointer[containerAgent]
	conn     atomic.Pointer[transport.Conn] // to the process that was started last
	log      logLines
	rootless atomic.Bool  // there is no pmdaroot
	clock    atomic.Int64 // how far it was put forward
}

func newContainerHarness(t *testing.T, idle time.Duration) *containerHarness {
	r := &containerHarness{t: t}
	r.ContainerProxy = transport.NewContainerProxy(transport.Local(newContainerAgent(100)), transport.ContainerOptions{
		Name: "box",
		Log:  slog.New(&r.log),
		Start: func(context.Context) (*transport.Conn, error) {
			r.starts.Add(1)
			if r.fail.Load() {
				return nil, errors.New("no process")
			}
			other := newContainerAgent(200)
			r.other.Store(other)
			w := transport.Local(other)
			conn := &transport.Conn{Transport: w, Process: fakeProcess{w}}
			r.conn.Store(conn)
			return conn, nil
		},
		Available:   func() bool { return !r.rootless.Load() },
		StopTimeout: time.Second,
		IdleTimeout: idle,
		Now:         func() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) },
	})
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *containerHarness) choose(client int32, container string) {
	r.Notify(transport.Notice{Client: client, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}, {Code: pdu.AttrContainer, Value: []byte(container)}}})
}

// fetch returns the value that a client gets.
func (r *containerHarness) fetch(client int32) (uint32, error) {
	var res pdu.Result
	err := agenttest.Do(r, agents.Origin{Client: client}, &pdu.Fetch{PMIDs: []pdu.PMID{containerMetric}}, &res)
	if err != nil {
		return 0, err
	}
	return res.Sets[0].Values[0].Word, nil
}

func (r *containerHarness) want(client int32, want uint32) {
	r.t.Helper()
	if got, err := r.fetch(client); got != want || err != nil {
		r.t.Errorf("client %d: got %d, %v, want %d", client, got, err, want)
	}
}

// wantStarts checks how often a process was started.
func (r *containerHarness) wantStarts(want int32) {
	r.t.Helper()
	if n := r.starts.Load(); n != want {
		r.t.Errorf("%d starts, want %d", n, want)
	}
}

// A client that has chosen a container is served by the process, which knows the
// container; other clients are served here.
func TestContainerProxy(t *testing.T) {
	r := newContainerHarness(t, 0)
	agenttest.Test(t, r, containerMetric)
	r.Notify(transport.Notice{Client: 1, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}}})
	r.want(1, 100)
	r.choose(2, "box")
	r.wantStarts(0) // no request yet
	r.want(2, 203)
	r.want(1, 100)
	r.choose(0, "box")
	agenttest.Test(t, r, containerMetric)
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
func TestContainerProxyCloseDuringCall(t *testing.T) {
	r := newContainerHarness(t, 0)
	r.choose(2, "box")
	r.want(2, 203)
	r.other.Load().waits.Store(true)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{containerMetric}})
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
func TestContainerProxyIdle(t *testing.T) {
	r := newContainerHarness(t, -1)
	r.choose(3, "box")
	r.want(3, 203)
	r.Notify(transport.Notice{Client: 3, End: true})
	<-r.conn.Load().Done()
	r.choose(3, "box")
	r.clock.Add(int64(time.Minute))
	r.want(3, 203)
	r.wantStarts(2)
}

// The end of the process costs the clients that wait for it, and no others.
func TestContainerProxyFails(t *testing.T) {
	r := newContainerHarness(t, 0)
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
	r.clock.Add(int64(time.Minute))
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
		`cannot start a process of agent "box" for containers, next try in 1m0s at the earliest: no process`,
		`agent "box" has a process for containers, pid 4711`,
		`the process of agent "box" for containers is down: `,
		"\n    the last line",
	} {
		testutil.Eventually(t, "in the log: "+want, func() bool { return r.log.has(want) })
	}
}

// Clients that invent names of containers have a process started once a minute,
// whether it can be started, ends by itself or has no clients any more.
func TestContainerProxyStartsOnceAMinute(t *testing.T) {
	for _, what := range []string{"goes on", "fails", "dies", "is idle"} {
		t.Run(what, func(t *testing.T) {
			r := newContainerHarness(t, -1)
			r.fail.Store(what == "fails")
			for i := range 240 { // four minutes, a client each second
				client := int32(i%7 + 1)
				r.choose(client, fmt.Sprint("made-up-", i))
				_, err := r.fetch(client)
				if what == "goes on" && err != nil {
					t.Fatal(err)
				}
				if what == "is idle" {
					r.Notify(transport.Notice{Client: client, End: true})
				}
				if conn := r.conn.Load(); conn != nil && what != "goes on" {
					if what == "dies" {
						conn.Close()
					}
					<-conn.Done()
				}
				r.clock.Add(int64(time.Second))
			}
			if what == "goes on" {
				r.wantStarts(1)
			} else {
				r.wantStarts(4)
			}
		})
	}
}

// Where there is no pmdaroot there are no containers, and no process is started
// for clients that ask for one.
func TestContainerProxyWithoutPmdaroot(t *testing.T) {
	r := newContainerHarness(t, 0)
	r.rootless.Store(true)
	r.choose(2, "made-up")
	r.want(2, 107)
	r.clock.Add(int64(time.Second))
	r.want(2, 107)
	r.wantStarts(0)
	r.rootless.Store(false)
	r.want(2, 107) // pmdaroot is looked for once a second
	r.clock.Add(int64(time.Second))
	r.want(2, 207)
	r.wantStarts(1)
}
