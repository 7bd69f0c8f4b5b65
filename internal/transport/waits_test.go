package transport_test

import (
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
)

// A caller whose agent has returned does not wait for it.
func TestReplyIsThere(t *testing.T) {
	w, waiter := local(t, newAnswer()), new(transporttest.Waiter)
	call := request(1, plain, 0)
	call.Waiter, call.Batched = waiter, true
	r, err := w.Send(call)
	if err != nil {
		t.Fatal(err)
	}
	testutil.Eventually(t, "the agent has returned", func() bool { _, ok := w.Pending(); return !ok })
	if _, err := r.Recv(nil); err != nil {
		t.Fatal(err)
	}
	if n := waiter.Waits(); n != 0 {
		t.Errorf("the caller is told %d times that it waits", n)
	}
}

// The caller is told before it waits for an agent in this process.
func TestBeforeWait(t *testing.T) {
	// start makes a call. At the end the agent returns from what blocks it.
	start := func(t *testing.T, w *transport.Worker, a *answer, waiter *transporttest.Waiter, item int) (end func()) {
		call := request(1, item, 0)
		call.Waiter = waiter
		done := make(chan error, 1)
		go func() {
			_, err := transport.Do(w, call, nil)
			done <- err
		}()
		return func() {
			close(a.open)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	transporttest.TestBeforeWait(t, testutil.Eventually, []transporttest.Wait{
		{Name: "for its turn", Start: func(t *testing.T, waiter *transporttest.Waiter) func() {
			a := newAnswer()
			w := local(t, a)
			first := send(t, w, 2, blocks, 0)
			<-a.entered
			end := start(t, w, a, waiter, plain)
			return func() {
				end()
				if _, err := first.Recv(nil); err != nil {
					t.Error(err)
				}
			}
		}},
		{Name: "for the Worker's goroutine", Start: func(t *testing.T, waiter *transporttest.Waiter) func() {
			a := newAnswer()
			return start(t, local(t, a), a, waiter, blocks)
		}},
		{Name: "for Notices that precede it", Start: func(t *testing.T, waiter *transporttest.Waiter) func() {
			a := newAnswer()
			w, pool := local(t, a), newPool(t)
			w.Notify(transport.Notice{Client: blocks, End: true})
			<-a.entered
			done := make(chan error, 1)
			go serve(pool, func(c *transport.Coroutine) {
				call := request(1, plain, 0)
				call.Waiter, call.Coroutine = waiter, c
				_, err := transport.Do(w, call, nil)
				done <- err
			})
			return func() {
				close(a.open)
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}},
	})
}
