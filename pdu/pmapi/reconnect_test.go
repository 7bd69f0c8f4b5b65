package pmapi

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

func TestBackoffWait(t *testing.T) {
	for _, tt := range []struct {
		b        Backoff
		failures int
		want     time.Duration
	}{
		{Backoff{}, 0, 0},
		{Backoff{}, 1, time.Second},
		{Backoff{}, 4, 8 * time.Second},
		{Backoff{}, 1000, time.Minute},
		{Backoff{Min: 3, Max: 10}, 2, 6},
		{Backoff{Min: 3, Max: 10}, 3, 10},
		{Backoff{Min: 30, Max: 10}, 1, 10},
	} {
		if got := tt.b.wait(tt.failures); got != tt.want {
			t.Errorf("%+v after %d failures: %v, want %v", tt.b, tt.failures, got, tt.want)
		}
	}
}

func TestReconnect(t *testing.T) {
	f := startFake(t)
	c := f.dial(Options{Reconnect: &Backoff{Min: time.Millisecond, Max: time.Millisecond}})
	ctx := testContext(t)
	var r Result
	fetch := func() {
		t.Helper()
		if err := c.Fetch(ctx, []pdu.PMID{loadID}, &r); err != nil {
			t.Fatal(err)
		}
	}
	c.SetProfile(&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: fakeDom, Exclude: true, Insts: []int32{5}}}})
	fetch()
	if _, err := c.Desc(ctx, loadID); err != nil || r.Reconnected {
		t.Fatal(r.Reconnected, err)
	}
	f.closeConns()
	fetch()
	if !r.Reconnected || len(r.Sets[0].Values) != 1 {
		t.Errorf("after a new connection: %+v", r)
	}
	fetch()
	if r.Reconnected {
		t.Error("Reconnected again")
	}
	f.seen()
	if _, err := c.Desc(ctx, loadID); err != nil || len(f.seen()) != 1 {
		t.Errorf("Desc is cached, %v", err)
	}

	// A store may have been done.
	f.closeConns()
	if err := c.Store(ctx, NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1)))); err == nil {
		t.Error("a store was repeated")
	}
	if err := c.Store(ctx, NewValueSet(countID, pdu.NoInst, ValueOf(uint32(1)))); err != nil {
		t.Errorf("store with a new connection: %v", err)
	}

	// pmcd is down: one attempt a request, with pauses that a context interrupts.
	f.ln.Close()
	f.closeConns()
	for range 3 {
		var lost *ConnError
		if err := c.Fetch(ctx, []pdu.PMID{loadID}, &r); !errors.As(err, &lost) {
			t.Errorf("no pmcd: %v", err)
		}
	}
	c.opts.Reconnect.Min, c.opts.Reconnect.Max = time.Hour, time.Hour
	for want, parent := range map[error]func(time.Duration) (context.Context, context.CancelFunc){
		context.DeadlineExceeded: func(d time.Duration) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, d)
		},
		context.Canceled: func(d time.Duration) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		},
	} {
		var err error
		for d := 10 * time.Millisecond; d < testutil.Hangs && !isConnError(err); d *= 2 { // until it ends after the request has begun
			short, cancel := parent(d)
			_, err = c.Lookup(short, "x")
			cancel()
		}
		if !errors.Is(err, want) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("no time to wait: %v, want %v and why there is no connection", err, want)
		}
	}
	c.opts.Timeout = 10 * time.Millisecond
	if _, err := c.Lookup(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the wait is longer than Timeout: %v", err)
	}
}
