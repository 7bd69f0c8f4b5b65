package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// Metrics of pmcd's own agent.
var (
	numClients = id(2, 3)
	ownName    = id(2, 21) // pmcd.hostname
)

// stuckHost is a Host two methods of which can be made to block.
type stuckHost struct {
	pmcd.Host
	open     chan struct{} // closed when they may return
	entered  chan struct{}
	hostname atomic.Bool // Hostname blocks
	status   atomic.Bool // Status does
}

func (h *stuckHost) Hostname(client int32) string {
	if h.hostname.Load() {
		h.block()
	}
	return h.Host.Hostname(client)
}

func (h *stuckHost) Status(s *pmcd.Status) {
	if h.status.Load() {
		h.block()
	}
	h.Host.Status(s)
}

func (h *stuckHost) block() {
	h.entered <- struct{}{}
	<-h.open
}

// newStuckHost returns a Daemon whose own agent may block, and what decides on that.
func newStuckHost(t *testing.T, timeout time.Duration) (*harness, *stuckHost) {
	t.Helper()
	h := &stuckHost{open: make(chan struct{}), entered: make(chan struct{}, 100)}
	r := newHarness(t, func(c *Config) {
		c.Agents.RequestTimeout = timeout
		c.hooks.wrapHost = func(inner pmcd.Host) pmcd.Host {
			h.Host = inner
			return h
		}
	}, nil)
	r.awaitStarts()
	return r, h
}

// ownAgentReady reports whether pmcd's own agent takes requests.
func (r *harness) ownAgentReady() bool {
	c := r.routes.Load().Agent(2).Conn()
	return c != nil && c.State() == transport.Ready
}

// CheckLiveness returns while the fetch of a client hangs, and does not while its own
// would.
func TestLiveness(t *testing.T) {
	r, h := newStuckHost(t, 0)
	result := make(chan error)
	check := func() {
		t.Helper()
		go func() { result <- r.CheckLiveness(t.Context()) }()
		select {
		case err := <-result:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(testutil.Hangs):
			t.Fatal("CheckLiveness does not return")
		}
	}
	check()
	h.hostname.Store(true)
	c := r.dial()
	c.send(&pdu.Profile{}, &pdu.Fetch{PMIDs: []pdu.PMID{ownName}})
	<-h.entered
	check()
	other := r.dial()
	other.send(&pdu.Profile{})
	if got := show(other.do(&pdu.Fetch{PMIDs: []pdu.PMID{numClients}})); got != "2.0.3=2" {
		t.Errorf("another client: %s", got)
	}

	h.status.Store(true)
	go func() { result <- r.CheckLiveness(t.Context()) }()
	<-h.entered
	select {
	case err := <-result:
		t.Errorf("CheckLiveness returned although its fetch hangs: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(h.open)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if m, ok := c.recv().(*pdu.Result); !ok || len(m.Sets[0].Values) != 1 {
		t.Errorf("the client that had to wait: %+v", m)
	}
}

// A fetch of pmcd's own metrics that exceeds -t fails with PM_ERR_AGAIN, alone or
// among others, and other fetches of these metrics do not.
func TestOwnAgentExceedsTimeout(t *testing.T) {
	r, h := newStuckHost(t, 0)
	h.hostname.Store(true)
	c, other := r.dial(), r.dial()
	c.send(&pdu.Profile{})
	other.send(&pdu.Profile{})
	for range 2 {
		for _, tt := range []struct {
			ids     []pdu.PMID
			timeout time.Duration
			want    string
		}{
			{[]pdu.PMID{ownName}, 50 * time.Millisecond, "2.0.21=PM_ERR_AGAIN"},
			// The other agent has this time, too.
			{[]pdu.PMID{ownName, id(240, 1), numClients}, time.Second, "2.0.21=PM_ERR_AGAIN 240.0.1=240 2.0.3=PM_ERR_AGAIN"},
		} {
			r.timeout.Store(int64(tt.timeout))
			c.send(&pdu.Fetch{PMIDs: tt.ids})
			<-h.entered
			r.timeout.Store(0)
			if got := show(other.do(&pdu.Fetch{PMIDs: []pdu.PMID{numClients}})); got != "2.0.3=2" {
				t.Errorf("another client: %s", got)
			}
			if got := show(c.recv()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		}
		if got := show(c.do(&pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), numClients}})); got != "240.0.1=240 2.0.3=2" {
			t.Errorf("the same client: %s", got)
		}
	}
	if !r.ownAgentReady() {
		t.Error("pmcd's own agent is not ready")
	}
	close(h.open)
}

// Calls of pmcd's own agent that hang do not delay the end of the daemon, nor a
// reload.
func TestEndWhileOwnAgentHangs(t *testing.T) {
	r, h := newStuckHost(t, 0)
	h.hostname.Store(true)
	for i := range 5 {
		c := r.dial()
		c.send(&pdu.Profile{}, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), ownName}[i%2:]})
		<-h.entered
	}
	before := r.Status().Reloads.Count
	r.Reload()
	testutil.Eventually(t, "reloaded", func() bool { return r.Status().Reloads.Count > before })
	ended := make(chan struct{})
	go func() {
		r.stop()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(testutil.Hangs):
		t.Fatal("the daemon does not end")
	}
	close(h.open)
}
