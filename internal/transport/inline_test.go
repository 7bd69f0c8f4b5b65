package transport_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// inline returns an Inline that is gone when t ends.
func inline(t *testing.T, a agents.Agent) transport.Transport {
	t.Helper()
	testutil.CheckGoroutines(t)
	tr := transport.Inline(a)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// A call that does not return holds up no other one, nor a Notice.
func TestInlineCallsAreConcurrent(t *testing.T) {
	a := newAnswer()
	tr := inline(t, a)
	p := newPool(t)
	var stuck sync.WaitGroup
	stuck.Go(func() {
		if err := desc(tr, blocks); err != nil {
			t.Error(err)
		}
	})
	stuck.Go(func() {
		serve(p, func(c *transport.Coroutine) {
			if err := desc(viaCoroutine{tr, c}, blocks); err != nil {
				t.Error(err)
			}
		})
	})
	<-a.entered
	<-a.entered
	if err := desc(tr, plain); err != nil {
		t.Error(err)
	}
	serve(p, func(c *transport.Coroutine) { transporttest.Test(t, viaCoroutine{tr, c}, id(plain)) })
	tr.Notify(transport.Notice{Client: 7, End: true})
	if got := strings.Join(a.all(), ","); !strings.HasSuffix(got, "7 ends") {
		t.Errorf("got %s", got)
	}
	close(a.open)
	stuck.Wait()
}

// A Coroutine waits for the timeout only. The agent is not late for others because of
// that, and a method that heeds its context returns.
func TestInlineLate(t *testing.T) {
	for _, item := range []int{blocks, endless} {
		a := newAnswer()
		tr := inline(t, a)
		p := newPool(t)
		s := &batches{ended: make(chan struct{})}
		s.list = append(s.list, func(c *transport.Coroutine) {
			for range 2 {
				call := request(1, item, 20*time.Millisecond)
				call.Coroutine = c
				if b, err := transport.Do(tr, call, []byte("x")); err != transport.ErrLate || string(b) != "x" {
					t.Errorf("%d: got %q, %v, want ErrLate", item, b, err)
				}
			}
			if s := tr.State(); s != transport.Ready {
				t.Errorf("%d: %v, want ready", item, s)
			}
			call := request(1, plain, time.Minute)
			call.Coroutine = c
			if b, err := transport.Do(tr, call, []byte("x")); err != nil || string(b[:1]) != "x" {
				t.Errorf("%d: got %q, %v", item, b, err)
			}
			if n := tr.(transport.AbandonCounter).Abandoned(); n != 2 {
				t.Errorf("%d: %d calls abandoned, want 2", item, n)
			}
			close(a.open)
		})
		go p.Serve(s) // the goroutine is lost to the agent
		<-s.ended
		// Without a Coroutine the goroutine waits, but the context of the method ends.
		if _, err := transport.Do(tr, request(1, endless, 20*time.Millisecond), nil); err != transport.ErrLate {
			t.Errorf("%d: got %v, want ErrLate", item, err)
		}
		if err := desc(tr, plain); err != nil {
			t.Error(err)
		}
	}
}

// A timeout that is shorter than those of calls that began before is kept.
func TestInlineTimeouts(t *testing.T) {
	a := newAnswer()
	tr := inline(t, a)
	var calls sync.WaitGroup
	for _, timeout := range []time.Duration{time.Hour, 0} {
		calls.Go(func() {
			if _, err := transport.Do(tr, request(0, blocks, timeout), nil); err != nil {
				t.Errorf("%v: %v", timeout, err)
			}
		})
		<-a.entered
	}
	for range 3 {
		if _, err := transport.Do(tr, request(1, endless, time.Millisecond), nil); err != transport.ErrLate {
			t.Errorf("got %v, want ErrLate", err)
		}
	}
	close(a.open)
	calls.Wait()
}

// What ends the agent ends all calls, but not the Sessions.
func TestInlineEnds(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		end        func(tr transport.Transport)
	}{
		{"a panic", "ouch", func(tr transport.Transport) { desc(tr, panics) }},
		{"a panic in a notice", "ouch", func(tr transport.Transport) { tr.Notify(transport.Notice{Client: panics, End: true}) }},
		{"the end of a goroutine", "ended the goroutine", func(tr transport.Transport) {
			s := &batches{ended: make(chan struct{})}
			s.list = append(s.list, func(c *transport.Coroutine) { desc(viaCoroutine{tr, c}, exits) })
			var p transport.CoroutinePool
			defer p.Close()
			go p.Serve(s)
			<-s.ended
		}},
		{"Close", transport.ErrClosed.Error(), func(tr transport.Transport) { tr.Close() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswer()
			tr := inline(t, a)
			p := newPool(t)
			var errs []error
			s := &batches{ended: make(chan struct{})}
			s.list = append(s.list, func(c *transport.Coroutine) {
				errs = append(errs, desc(viaCoroutine{tr, c}, blocks), desc(viaCoroutine{tr, c}, plain))
			})
			go p.Serve(s)
			<-a.entered
			tt.end(tr)
			<-s.ended
			<-tr.Done()
			for _, err := range append(errs, tr.Err(), desc(tr, plain)) {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
			}
			tr.Close()
			if a.closed.Load() {
				t.Error("closed during a call")
			}
			close(a.open)
			testutil.Eventually(t, "closed", a.closed.Load)
		})
	}
}

// Many clients have their calls abandoned or not, at random, and each gets the reply
// to its own request.
func TestInlineStress(t *testing.T) {
	tr := inline(t, &flakyAgent{neverPanics: true})
	p := newPool(t)
	var replies atomic.Int64
	var wg sync.WaitGroup
	for client := range 8 {
		s := &batches{ended: make(chan struct{})}
		for round := range 300 {
			s.list = append(s.list, func(c *transport.Coroutine) {
				want := pdu.NewPMID(client, round, 1)
				req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: want})
				call := transport.Call{Req: req, Coroutine: c, Timeout: 10 * time.Millisecond}
				b, err := transport.Do(tr, &call, nil)
				if err == transport.ErrLate {
					return
				}
				var d pdu.Desc
				if err == nil {
					_, err = pdu.ParseInto(b, &d)
				}
				if err != nil || d.PMID != want {
					t.Errorf("got %v, %v; want %v", d.PMID, err, want)
				}
				replies.Add(1)
			})
		}
		wg.Go(func() {
			go p.Serve(s)
			<-s.ended
		})
	}
	wg.Wait()
	if n, late := replies.Load(), tr.(transport.AbandonCounter).Abandoned(); n == 0 || late == 0 || n+late != 8*300 {
		t.Errorf("%d replies, %d calls abandoned", n, late)
	}
}

func TestInlineLimit(t *testing.T) {
	tr := inline(t, newAnswer())
	tr.(*transport.Worker).LimitReplies(16 << 20)
	if err := transporttest.Do(tr, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{id(huge)}}, new(pdu.Result)); err != pdu.ErrnoTooBig {
		t.Errorf("got %v, want %v", err, pdu.ErrnoTooBig)
	}
}
