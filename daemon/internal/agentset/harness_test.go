package agentset

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fake is a Transport without an agent: the test controls it.
type fake struct {
	opt  wire.Options
	dead chan struct{}
	end  sync.Once
	err  error // set by end
	owes transport.Pending

	state transport.State
}

func (f *fake) Send(*transport.Call) (transport.Reply, error) { return f, nil }
func (f *fake) Recv(b []byte) ([]byte, error)                 { return b, transport.ErrLate }
func (f *fake) State() transport.State                        { return f.state }
func (f *fake) Notify(transport.Notice)                       {}
func (f *fake) WantsAttrs() bool                              { return false }
func (f *fake) Done() <-chan struct{}                         { return f.dead }
func (f *fake) Err() error                                    { return f.err }
func (f *fake) Close() error                                  { f.die(transport.ErrClosed); return nil }
func (f *fake) Pending() (transport.Pending, bool)            { return f.owes, f.owes.Type != 0 }
func (f *fake) die(err error)                                 { f.end.Do(func() { f.err = err; close(f.dead) }) }

// A killedProcess is one that signal 9 has ended.
type killedProcess struct {
	done    chan struct{}
	stopped bool
}

func newKilledProcess() *killedProcess {
	p := &killedProcess{done: make(chan struct{})}
	close(p.done)
	return p
}

func (*killedProcess) PID() int                   { return 4711 }
func (p *killedProcess) Done() <-chan struct{}    { return p.done }
func (*killedProcess) Status() syscall.WaitStatus { return syscall.WaitStatus(syscall.SIGKILL) }
func (*killedProcess) StderrTail() []string       { return nil }
func (p *killedProcess) Stop(context.Context)     { p.stopped = true }

// A harness is a Set with one agent, in a bubble of package synctest. Its
// transports are fakes.
type harness struct {
	*Set
	t       *testing.T
	agent   *Agent
	began   time.Time
	logs    *logtest.Log
	timeout atomic.Int64 // a time.Duration

	mu     sync.Mutex
	starts []time.Duration // since began
	last   *fake
	calls  []string // of the Observer
}

var errNoStart = errors.New("it does not start")

// newHarness returns a harness. Open may be nil: then each start succeeds.
func newHarness(t *testing.T, change func(*Config), open func(n int, f *fake) error) *harness {
	t.Helper()
	h := &harness{t: t, began: time.Now()}
	h.timeout.Store(int64(5 * time.Second))
	log, logs := logtest.NewLog()
	h.logs = logs
	cfg := Config{
		HandshakeTimeout: func() time.Duration { return 3 * time.Second },
		RequestTimeout:   func() time.Duration { return time.Duration(h.timeout.Load()) },
		Kill:             context.Background(),
		Observer:         h,
		Counts:           new(pdu.Counts),
		Log:              log,
		Limiter:          diag.NewLogLimiter(log),
		Trace:            diag.NewTrace(0, log),
		Debug:            diag.NewDebug("", log),
		Open: func(_ context.Context, _ *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			f := &fake{opt: opt, dead: make(chan struct{})}
			h.mu.Lock()
			h.starts = append(h.starts, time.Since(h.began))
			n := len(h.starts)
			h.last = f
			h.mu.Unlock()
			if open != nil {
				if err := open(n, f); err != nil {
					return nil, err
				}
			}
			return &transport.Conn{Transport: f, In: 7, Out: 8}, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	h.Set = New(cfg)
	h.agent = h.NewAgent(&pmcdconf.Agent{Name: "t", Domain: 240, Kind: pmcdconf.Pipe})
	t.Cleanup(func() {
		h.Stop([]*Agent{h.agent})
		h.Wait()
	})
	return h
}

// tell notes what the Set says, and whether requests reach the agent meanwhile.
func (h *harness) tell(text string, a *Agent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.Conn() == nil {
		text += " without a connection"
	}
	h.calls = append(h.calls, text)
}

func (h *harness) AgentReady(a *Agent, newNames bool) {
	if newNames {
		h.tell("ready, new names", a)
	} else {
		h.tell("ready", a)
	}
}

func (h *harness) AgentRestarted(a *Agent, quiet bool) {
	if quiet {
		h.tell("restarted, quiet", a)
	} else {
		h.tell("restarted", a)
	}
}

func (h *harness) AgentConnected(c *Conn)     { h.tell("connected", c.Agent) }
func (h *harness) AgentDisconnected(a *Agent) { h.tell("disconnected", a) }
func (h *harness) AgentChanged(*Agent)        {}

// start is the first start, or what SIGHUP does.
func (h *harness) start() { h.Start(context.Background(), []*Agent{h.agent}) }

// pass lets time pass and all that happens then.
func (h *harness) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// startedAt fails the test unless the agent was started at these times.
func (h *harness) startedAt(when string, want ...time.Duration) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.starts, want) {
		h.t.Errorf("%s: started at %v, want %v", when, h.starts, want)
	}
}
