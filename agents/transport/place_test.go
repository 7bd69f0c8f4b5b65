package transport_test

import (
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
)

// While a call waits for an agent in this process, others compute in its place.
func TestLeavesPlace(t *testing.T) {
	// start makes a call in p. At the end the agent returns from what blocks it.
	start := func(t *testing.T, w *transport.Worker, a *answer, p *transporttest.Place, item int) (end func()) {
		call := request(1, item, 0)
		call.Place = p
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
	transporttest.TestLeavesPlace(t, testutil.Eventually, []transporttest.Wait{
		{Name: "for its turn", Start: func(t *testing.T, p *transporttest.Place) func() {
			a := newAnswer()
			w := local(t, a)
			first := send(t, w, 2, blocks, 0)
			<-a.entered
			end := start(t, w, a, p, plain)
			return func() {
				end()
				if _, err := first.Recv(nil); err != nil {
					t.Error(err)
				}
			}
		}},
		{Name: "for the Worker's goroutine", Start: func(t *testing.T, p *transporttest.Place) func() {
			a := newAnswer()
			return start(t, local(t, a), a, p, blocks)
		}},
		{Name: "for Notices that precede it", Start: func(t *testing.T, p *transporttest.Place) func() {
			a := newAnswer()
			w, pool := local(t, a), newPool(t)
			w.Notify(transport.Notice{Client: blocks, End: true})
			<-a.entered
			done := make(chan error, 1)
			go serve(pool, func(turn *transport.Turn) {
				call := request(1, plain, 0)
				call.Place, call.Turn = p, turn
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

// A forked is a Place with one Fork.
type forked struct {
	transporttest.Place
	fork transporttest.Place
}

func (f *forked) Fork() transport.Place { return &f.fork }

// An agent that ends its goroutine has no place after that.
func TestExitLeavesPlace(t *testing.T) {
	w := local(t, newAnswer())
	p := new(forked)
	call := request(1, exits, 0)
	call.Place = p
	if _, err := transport.Do(w, call, nil); err == nil {
		t.Error("the agent has answered")
	}
	<-w.Done()
	if p.fork.Left() != 1 || p.fork.Entered() {
		t.Errorf("the place was left %d times, want once", p.fork.Left())
	}
}
