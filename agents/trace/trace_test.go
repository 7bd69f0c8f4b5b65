package trace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/tracepdu"
)

// Each call sends one value, with the flag for an answer if the Client is synchronous.
func TestCalls(t *testing.T) {
	ctx := t.Context()
	for _, async := range []bool{false, true} {
		a := startAgent(t)
		c, _ := a.client(Options{Async: async})
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		check(c.Point(ctx, "p"))
		check(c.Observe(ctx, "o", 3.5))
		check(c.Counter(ctx, "c", 42))
		check(c.Transact(ctx, strings.Repeat("x", 124), 1500*time.Millisecond))
		tx := c.Begin("t")
		check(tx.End(ctx))
		if err := tx.End(ctx); err != ErrNoProgress {
			t.Errorf("ended twice: %v", err)
		}
		aborted := c.Begin("a")
		check(aborted.Abort())
		if err := aborted.End(ctx); err != ErrNoProgress {
			t.Errorf("ended after Abort: %v", err)
		}
		if err := aborted.Abort(); err != ErrNoProgress {
			t.Errorf("aborted twice: %v", err)
		}
		check(c.Flush(ctx))
		check(c.Close())
		s := fmt.Sprint(!async)
		want := []string{"2 p -1 " + s, "3 o 3.5 " + s, "4 c 42 " + s, "1 " + strings.Repeat("x", 124) + " 1.5 " + s}
		testutil.Eventually(t, "five values arrive", func() bool { return len(a.received()) == 5 })
		got := a.received()
		if !slices.Equal(got[:4], want) || !strings.HasPrefix(got[4], "1 t ") || !strings.HasSuffix(got[4], s) {
			t.Errorf("got %q, want %q", got, want)
		}
		if err := c.Point(ctx, "p"); err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		if err := c.Close(); err != ErrClosed {
			t.Errorf("closed twice: %v", err)
		}
		if err := c.Flush(ctx); err != ErrClosed {
			t.Errorf("flushed after Close: %v", err)
		}
	}
}

func TestTags(t *testing.T) {
	c := New(Options{Disabled: true})
	defer c.Close()
	for tag, want := range map[string]error{"": ErrTagName, "a\x00b": ErrTagName, strings.Repeat("x", 125): ErrTagLength, "\xff ": nil} {
		if err := c.Begin(tag).End(t.Context()); err != want {
			t.Errorf("%q: %v, want %v", tag, err, want)
		}
	}
}

// What the agent says at the beginning can be a refusal.
func TestRefusals(t *testing.T) {
	for greeting, want := range map[int32]error{-12010: ErrPermission, -12011: ErrConnLimit, 2: ErrVersion, -1: Error(-1)} {
		a := startAgent(t, func(a *agent) { a.greeting = greeting })
		c, _ := a.client(Options{})
		if err := c.Point(t.Context(), "p"); !errors.Is(err, want) {
			t.Errorf("greeted with %d: %v, want %v", greeting, err, want)
		}
	}
}

// A synchronous call that gets no answer, or a wrong one, is an error.
func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer int32
		ok     bool
		want   error
	}{
		{"of another type", 3, true, ErrIPC},
		{"an error", -12004, true, ErrTagType},
		{"none", 0, true, ErrTimeout},
		{"the connection is closed", 0, false, ErrIPC},
	} {
		a := startAgent(t, func(a *agent) {
			a.answer = func(tracepdu.Data) (int32, bool) { return tt.answer, tt.ok }
		})
		c, _ := a.client(Options{RequestTimeout: 10 * time.Millisecond})
		if tt.want != ErrTimeout {
			c.options.RequestTimeout = testutil.Hangs
		}
		if err := c.Point(t.Context(), "p"); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

// A context ends a call that waits for its answer, and one that waits for its turn. The
// next call works.
func TestContext(t *testing.T) {
	arrived, leave := make(chan bool), make(chan bool)
	a := startAgent(t, func(a *agent) {
		a.answer = func(d tracepdu.Data) (int32, bool) {
			if d.Kind == tracepdu.Point {
				arrived <- true
				<-leave
			}
			return int32(d.Kind), true
		}
	})
	c, _ := a.client(Options{RequestTimeout: testutil.Hangs})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- c.Point(ctx, "p") }()
	<-arrived
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Counter(ended, "c", 1); err != context.Canceled {
		t.Errorf("waiting for the turn: %v", err)
	}
	cancel()
	if err := <-first; err != context.Canceled {
		t.Errorf("waiting for the answer: %v", err)
	}
	close(leave)
	if err := c.Counter(t.Context(), "c", 1); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// A synchronous Client connects again at once if the agent was started again, and after
// delays if it cannot be reached.
func TestReconnect(t *testing.T) {
	a := startAgent(t)
	c, k := a.client(Options{Reconnect: []time.Duration{5 * time.Second, 10 * time.Second}})
	point := func() error { return c.Point(t.Context(), "p") }
	if err := point(); err != nil {
		t.Fatal(err)
	}
	a.hangUp()
	if err := point(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	dial, dials := c.options.Dial, 0
	c.options.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return nil, errors.New("no agent")
	}
	a.hangUp()
	for _, step := range []struct {
		advance time.Duration
		dials   int
	}{
		{0, 1}, {0, 1}, {4999 * time.Millisecond, 1}, {time.Millisecond, 2}, {9999 * time.Millisecond, 2}, {time.Millisecond, 3}, {9 * time.Second, 3}, {time.Second, 4},
	} {
		k.advance(step.advance)
		if err := point(); !errors.Is(err, ErrIPC) || dials != step.dials {
			t.Errorf("%v, %d attempts, want %d", err, dials, step.dials)
		}
	}
	c.options.Dial = dial
	k.advance(10 * time.Second)
	if err := point(); err != nil {
		t.Errorf("the agent is back: %v", err)
	}
}

// Many goroutines use one Client.
func TestConcurrent(t *testing.T) {
	for _, async := range []bool{false, true} {
		a := startAgent(t)
		c, _ := a.client(Options{Async: async, Queue: 1000})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 20 {
					tx := c.Begin("t")
					if err := c.Point(t.Context(), "p"); err != nil {
						t.Error(err)
					}
					if err := tx.End(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		testutil.Eventually(t, "all values arrive", func() bool { return len(a.received()) == 400 })
	}
}

func TestEnvironment(t *testing.T) {
	for _, v := range []string{"HOST", "PORT", "TIMEOUT", "REQTIMEOUT", "RECONNECT"} {
		t.Setenv("PCP_TRACE_"+v, "")
	}
	o := Options{}.withDefaults()
	if o.Port != 4323 || o.ConnectTimeout != 3*time.Second || o.RequestTimeout != 10*time.Second || o.Disabled ||
		fmt.Sprint(o.Reconnect) != "[5s 10s 20s 40s 1m20s]" || o.Queue != 1024 {
		t.Errorf("defaults: %+v", o)
	}
	if addrs := o.addrs(); addrs[len(addrs)-1] != "localhost:4323" {
		t.Errorf("addresses: %v", addrs)
	}
	t.Setenv("PCP_TRACE_HOST", "agent.example")
	t.Setenv("PCP_TRACE_PORT", "4000")
	t.Setenv("PCP_TRACE_TIMEOUT", "1.5")
	t.Setenv("PCP_TRACE_REQTIMEOUT", "2")
	t.Setenv("PCP_TRACE_RECONNECT", "1, 2,3")
	t.Setenv("PCP_TRACE_NOAGENT", "")
	o, err := FromEnv()
	if err != nil || o.Host != "agent.example" || o.Port != 4000 || o.ConnectTimeout != 1500*time.Millisecond ||
		o.RequestTimeout != 2*time.Second || fmt.Sprint(o.Reconnect) != "[1s 2s 3s]" || !o.Disabled {
		t.Errorf("got %+v, %v", o, err)
	}
	if d := (Options{}).withDefaults(); d.Port != 4000 || !d.Disabled || d.addrs()[0] != "agent.example:4000" || len(d.addrs()) != 1 {
		t.Errorf("got %+v", d)
	}
	if d := (Options{Port: 5, Host: "::1"}).withDefaults(); d.addrs()[0] != "[::1]:5" {
		t.Errorf("got %+v", d)
	}
	for name, bad := range map[string]string{"PORT": "0", "TIMEOUT": "x", "REQTIMEOUT": "-1", "RECONNECT": "1,,2"} {
		t.Setenv("PCP_TRACE_"+name, bad)
	}
	o, err = FromEnv()
	if !errors.Is(err, ErrEnvironment) || strings.Count(err.Error(), "PCP_TRACE_") != 4 || o.Port != 0 || o.ConnectTimeout != 0 || o.Reconnect != nil {
		t.Errorf("wrong values: %+v, %v", o, err)
	}
}

func TestErrorText(t *testing.T) {
	for e := ErrTagName; e >= ErrConnLimit; e-- {
		if !strings.HasPrefix(e.Error(), "trace: ") || strings.Contains(e.Error(), "-12") {
			t.Errorf("%d: %v", e, e)
		}
	}
	if got := Error(-5).Error(); got != "trace: error -5" {
		t.Errorf("got %q", got)
	}
}

// The end of a call's context sets no deadline after the call: the next one has its own.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	entered, leave := make(chan struct{}), make(chan struct{})
	var set atomic.Bool
	stop := interrupt(ctx, func(time.Time) error {
		close(entered)
		<-leave
		set.Store(true)
		return nil
	})
	cancel()
	<-entered
	go close(leave)
	stop()
	if !set.Load() {
		t.Error("the deadline is set later")
	}
	stop = interrupt(t.Context(), func(time.Time) error {
		t.Error("the deadline is set")
		return nil
	})
	stop()
}

// The name of this host may have an address that answers nothing: then localhost is tried.
func TestLocalhost(t *testing.T) {
	a := startAgent(t)
	c := New(Options{
		Port:           a.Addr().(*net.TCPAddr).Port,
		ConnectTimeout: time.Second,
		RequestTimeout: testutil.Hangs,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "localhost:") && ctx.Err() == nil {
				return net.Dial("tcp4", a.Addr().String())
			}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	defer c.Close()
	if err := c.Point(t.Context(), "p"); err != nil {
		t.Error(err)
	}
}
