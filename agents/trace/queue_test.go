package trace

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// An asynchronous call never blocks: without an agent, and with a full queue, it fails.
func TestAsyncDrops(t *testing.T) {
	testutil.CheckGoroutines(t)
	dialing, result := make(chan bool), make(chan error)
	k := &clock{t: time.Unix(1e9, 0)}
	c := newClient(Options{Async: true, Host: "agent", Queue: 3, Reconnect: []time.Duration{5 * time.Second}, Dial: func(context.Context, string, string) (net.Conn, error) {
		dialing <- true
		return nil, <-result
	}}, k.now)
	point := func() error { return c.Point(t.Context(), "p") }
	if err := point(); err != nil {
		t.Fatal(err)
	}
	<-dialing // the queue is empty
	for range 3 {
		if err := point(); err != nil {
			t.Fatal(err)
		}
	}
	if err := point(); !errors.Is(err, ErrIPC) || err != errFull {
		t.Errorf("full queue: %v", err)
	}
	result <- errors.New("no agent")
	if err := c.Flush(t.Context()); !errors.Is(err, ErrIPC) || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("flush: %v", err)
	}
	if err := point(); err != errDown {
		t.Errorf("no agent: %v", err)
	}
	if n := c.Dropped(); n != 6 {
		t.Errorf("%d values dropped", n)
	}
	k.advance(5 * time.Second)
	if err := point(); err != nil {
		t.Errorf("later: %v", err)
	}
	<-dialing
	result <- errors.New("still no agent")
	if err := c.Close(); !errors.Is(err, ErrIPC) {
		t.Errorf("close: %v", err)
	}
}

// An asynchronous Client connects again when the agent was started again.
func TestAsyncReconnects(t *testing.T) {
	a := startAgent(t)
	c, _ := a.client(Options{Async: true, Reconnect: []time.Duration{time.Nanosecond}})
	c.options.Reconnect[0] = 0 // so that a connection has been good for long enough
	if err := c.Point(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "the first value arrives", func() bool { return len(a.received()) == 1 })
	a.hangUp()
	// The Client may not have noticed yet when it sends the first ones.
	testutil.Eventually(t, "a value arrives after a restart", func() bool {
		if err := c.Point(t.Context(), "after"); err != nil {
			t.Error(err)
		}
		c.Flush(t.Context())
		return len(a.received()) > 1
	})
}

// Close sends what is in the queue, but does not wait for ever.
func TestAsyncClose(t *testing.T) {
	a := startAgent(t)
	c, _ := a.client(Options{Async: true})
	const n = 500
	for range n {
		if err := c.Point(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	testutil.Eventually(t, "all values arrive", func() bool { return len(a.received()) == n })

	hangs := newClient(Options{Async: true, Host: "agent", RequestTimeout: time.Millisecond, ConnectTimeout: testutil.Hangs,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}, time.Now)
	hangs.Point(t.Context(), "p")
	if err := hangs.Close(); !errors.Is(err, ErrTimeout) {
		t.Errorf("got %v", err)
	}
}

// An asynchronous call does not allocate.
func TestAsyncAllocates(t *testing.T) {
	a := startAgent(t)
	c, _ := a.client(Options{Async: true, Queue: 10000})
	if n := testing.AllocsPerRun(1000, func() { c.Point(t.Context(), "p") }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
