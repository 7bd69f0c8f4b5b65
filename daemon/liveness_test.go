package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// There is no liveness while the acceptor hangs, whatever else goes on.
func TestLivenessOfAcceptor(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	r := newHarness(t, func(c *Config) {
		c.TraceMask = diag.TraceConns | diag.TraceUnbuffered // the acceptor calls the log
		onLog(func(entry string) {
			if strings.Contains(entry, "New client: [1]") {
				close(stuck)
				<-free
			}
		})(c)
	}, nil)
	r.awaitStarts()
	c := r.dial()
	c.do(&pdu.DescReq{PMID: id(240, 1)})
	r.connect("tcp", r.tcp)
	<-stuck
	for range 2 { // also if one before was in vain
		late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := r.CheckLiveness(late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v while the acceptor hangs", err)
		}
	}
	if got := show(c.do(&pdu.DescReq{PMID: id(240, 1)})); got[:3] == "PM_" {
		t.Errorf("a client that is connected: %s", got)
	}
	close(free)
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	for range 100 {
		if err := r.CheckLiveness(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// Liveness probes do not delay the end of the daemon, and end with it.
func TestLivenessAtTheEnd(t *testing.T) {
	for range 20 {
		t.Run("", func(t *testing.T) {
			r := newHarness(t, nil, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var probes sync.WaitGroup
			for range 4 {
				probes.Go(func() {
					for ctx.Err() == nil {
						r.CheckLiveness(ctx)
					}
				})
			}
			r.dial().do(&pdu.DescReq{PMID: id(240, 1)})
			r.stop()
			cancel()
			probes.Wait()
		})
	}
}

// A Daemon that Run does not serve is not alive.
func TestLivenessWithoutRun(t *testing.T) {
	d := &Daemon{probes: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.CheckLiveness(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Reloading and AgentsStarted are called at a reload, the latter at the start too.
func TestAgentsStarted(t *testing.T) {
	said := make(chan [2]int, 4)
	r := newHarness(t, func(c *Config) {
		c.Manager.Reloading = func() { said <- [2]int{-1, -1} }
		c.Manager.AgentsStarted = func(h Health) { said <- [2]int{h.Ready, h.Agents} }
	}, nil)
	r.Reload()
	for _, want := range [][2]int{{4, 4}, {-1, -1}, {4, 4}} {
		select {
		case got := <-said:
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		case <-time.After(testutil.Hangs):
			t.Fatal("nothing was said")
		}
	}
}
