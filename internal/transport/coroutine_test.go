package transport_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// batches is a Session whose batches of input are functions to call.
type batches struct {
	list  []func(c *transport.Coroutine)
	ended chan struct{}
}

func (s *batches) Await() bool {
	if len(s.list) > 0 {
		return true
	}
	close(s.ended)
	return false
}

func (s *batches) HandleInput(c *transport.Coroutine) {
	batch := s.list[0]
	s.list = s.list[1:]
	batch(c)
}

// serve serves a Session with these batches until it ends.
func serve(p *transport.CoroutinePool, list ...func(c *transport.Coroutine)) {
	s := &batches{list, make(chan struct{})}
	p.Serve(s)
	<-s.ended
}

// newPool returns a pool that leaves nothing behind.
func newPool(t testing.TB) *transport.CoroutinePool {
	t.Helper()
	testutil.CheckGoroutines(t)
	p := new(transport.CoroutinePool)
	t.Cleanup(p.Close)
	return p
}

// viaCoroutine is a Transport whose calls are those of a Coroutine.
type viaCoroutine struct {
	transport.Transport
	c *transport.Coroutine
}

func (v viaCoroutine) Send(call *transport.Call) (transport.Reply, error) {
	call.Coroutine = v.c
	return v.Transport.Send(call)
}

// goroutine is the number of the one that runs.
func goroutine() string {
	var b [64]byte
	return strings.Fields(string(b[:runtime.Stack(b[:], false)]))[1]
}

// where is an agent that says on what goroutine it is called.
type where struct{ *answer }

func (a where) Desc(context.Context, agents.Origin, pdu.PMID) (pdu.Desc, error) {
	a.say("%s", goroutine())
	return pdu.Desc{}, nil
}

// A Session and the Agent that it calls share a goroutine.
func TestCoroutine(t *testing.T) {
	a := where{newAnswer()}
	w, known := local(t, a), local(t, newAnswer())
	p := newPool(t)
	ask := func(c *transport.Coroutine) {
		if err := desc(viaCoroutine{w, c}, plain); err != nil {
			t.Error(err)
		}
	}
	serve(p, ask, ask, func(c *transport.Coroutine) {
		transporttest.Test(t, viaCoroutine{known, c}, id(plain))
	})
	all := a.all()
	if want := []string{goroutine(), goroutine()}; !slices.Equal(all, want) {
		t.Errorf("called on goroutines %q, want %q", all, want)
	}
}

// If a call does not return, its Coroutine waits for the timeout and continues on another
// goroutine. When the call has returned, the agent gets the Notices that were queued,
// and takes requests again.
func TestCoroutineLate(t *testing.T) { synctest.Test(t, testCoroutineLate) }

func testCoroutineLate(t *testing.T) {
	a := newAnswer()
	w, other := local(t, a), local(t, newAnswer())
	p := newPool(t)
	states := make(chan transport.State, 10)
	w.OnState(func(s transport.State) { states <- s })
	s := &batches{ended: make(chan struct{})}
	left := make(chan struct{}) // the goroutine of the test
	ask := func(c *transport.Coroutine, w transport.Transport, client int32, item int) error {
		call := request(client, item, 50*time.Millisecond)
		call.Coroutine = c
		r, err := w.Send(call)
		if err != nil {
			return err
		}
		b, err := r.Recv([]byte("x"))
		if string(b[:1]) != "x" || err != nil && len(b) > 1 {
			t.Errorf("got %q, %v", b, err)
		}
		return err
	}
	s.list = append(s.list, func(c *transport.Coroutine) {
		if err := ask(c, w, 1, blocks); err != transport.ErrLate {
			t.Errorf("got %v, want ErrLate", err)
		}
		if err := ask(c, w, 1, plain); err != transport.ErrLate {
			t.Errorf("got %v, want ErrLate", err)
		}
		if err := ask(c, other, 1, plain); err != nil {
			t.Error(err)
		}
		if s := <-states; s != transport.Late || w.Abandoned() != 1 {
			t.Errorf("reported %v, %d calls abandoned; want late and 1", s, w.Abandoned())
		}
	}, func(c *transport.Coroutine) {
		w.Notify(transport.Notice{Client: 1, End: true})
		select {
		case <-left:
			t.Error("the goroutine has left the agent")
		default:
		}
		close(a.open)
		<-left
		if s := <-states; s != transport.Ready {
			t.Errorf("reported %v, want ready", s)
		}
		testutil.Eventually(t, "well again", func() bool { return w.State() == transport.Ready })
		if err := ask(c, w, 2, plain); err != nil {
			t.Error(err)
		}
	})
	p.Serve(s)
	close(left)
	<-s.ended
	if got, want := a.all(), []string{"1 asks", "1 ends", "2 asks"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The timeout of a call may pass before the Coroutine can make it, because the agent
// handles a Notice or the Coroutine is not scheduled in time. Then the call is not made,
// and the agent is Late until it is free.
func TestCoroutineLateAtOnce(t *testing.T) {
	for _, notice := range []bool{true, false} {
		t.Run(fmt.Sprintf("notice=%v", notice), func(t *testing.T) {
			a := newAnswer()
			w := local(t, a)
			p := newPool(t)
			want := []string{"1 asks"}
			if notice {
				want = []string{"2 ends", "1 asks"}
				w.Notify(transport.Notice{Client: blocks, End: true})
				<-a.entered
			}
			serve(p, func(c *transport.Coroutine) {
				call := request(1, plain, 20*time.Millisecond)
				call.Coroutine = c
				r, err := w.Send(call)
				if err != nil {
					t.Error(err)
				}
				if !notice {
					testutil.Eventually(t, "late", func() bool { return w.State() == transport.Late })
				}
				if _, err := r.Recv(nil); err != transport.ErrLate {
					t.Errorf("got %v, want %v", err, transport.ErrLate)
				}
				close(a.open)
				testutil.Eventually(t, "well again", func() bool { return w.State() == transport.Ready })
				if err := transporttest.Do(viaCoroutine{w, c}, agents.Origin{Client: 1}, &pdu.DescReq{PMID: id(plain)}, new(pdu.Desc)); err != nil {
					t.Error(err)
				}
			})
			if got := a.all(); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// A call that is sent while the agent handles a Notice is made after that.
func TestCoroutineBehindNotice(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	p := newPool(t)
	const rounds = 200
	var want []string
	for range rounds {
		want = append(want, "1 ends", "0 asks")
	}
	serve(p, func(c *transport.Coroutine) {
		for range rounds {
			w.Notify(transport.Notice{Client: 1, End: true})
			runtime.Gosched() // often the Worker is at it then
			call := request(0, plain, 0)
			call.Coroutine = c
			if _, err := transport.Do(w, call, nil); err != nil {
				t.Error(err)
			}
		}
	})
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// What ends an agent does not end the Session that asked it.
func TestCoroutineSurvives(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		item       int
		notice     bool
	}{
		{"a panic", "ouch", panics, false},
		{"a panic in a notice", "ouch", plain, true},
		{"the end of the goroutine", "ended the goroutine", exits, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newAnswer()
			w := local(t, a)
			p := newPool(t)
			said := 0
			check := func(c *transport.Coroutine) {
				call := request(0, tt.item, time.Minute)
				call.Coroutine = c
				if tt.notice && said == 0 {
					w.Notify(transport.Notice{Client: panics, End: true})
				}
				_, err := transport.Do(w, call, nil)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				said++
			}
			s := &batches{[]func(*transport.Coroutine){check, check}, make(chan struct{})}
			go p.Serve(s) // the goroutine may be lost
			<-s.ended
			<-w.Done()
			testutil.Eventually(t, "closed", a.closed.Load)
		})
	}
}

// The end of an agent that is stuck does not keep its Coroutine.
func TestCoroutineOfClosed(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	p := newPool(t)
	go func() {
		<-a.entered
		w.Close()
	}()
	s := &batches{ended: make(chan struct{})}
	s.list = append(s.list, func(c *transport.Coroutine) {
		call := request(0, blocks, 0)
		call.Coroutine = c
		if _, err := transport.Do(w, call, nil); err != transport.ErrClosed {
			t.Errorf("got %v, want %v", err, transport.ErrClosed)
		}
		if a.closed.Load() {
			t.Error("closed during a call")
		}
		close(a.open)
	})
	p.Serve(s)
	<-s.ended
	testutil.Eventually(t, "closed", a.closed.Load)
}

// A bug of ours ends the process, and is found by the stack.
func TestPanicOfSession(t *testing.T) {
	var p transport.CoroutinePool
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "ours") || !strings.Contains(v, "bugOfOurs") {
			t.Errorf("got %s", v)
		}
	}()
	serve(&p, func(*transport.Coroutine) { bugOfOurs() })
}

func bugOfOurs() { panic("ours") }

func BenchmarkFetchLocal(b *testing.B) {
	fetch := func(b *testing.B, w transport.Transport, c *transport.Coroutine) {
		defer w.Close()
		req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(plain)}})
		if err != nil {
			b.Error(err)
		}
		call := transport.Call{Profile: transport.NewProfile(new(pdu.Profile)), Req: req, Timeout: 5 * time.Second, Coroutine: c}
		var reply []byte
		b.ReportAllocs()
		for b.Loop() {
			if reply, err = transport.Do(w, &call, reply[:0]); err != nil {
				b.Error(err)
			}
		}
	}
	b.Run("Worker", func(b *testing.B) { fetch(b, transport.Local(newAnswer()), nil) })
	b.Run("Coroutine", func(b *testing.B) {
		serve(newPool(b), func(c *transport.Coroutine) { fetch(b, transport.Local(newAnswer()), c) })
	})
	b.Run("Inline", func(b *testing.B) {
		serve(newPool(b), func(c *transport.Coroutine) { fetch(b, transport.Inline(newAnswer()), c) })
	})
	b.Run("HandleInput", func(b *testing.B) {
		newPool(b).Serve(&idle{b})
	})
}

// idle is a Session whose HandleInput does nothing.
type idle struct{ b *testing.B }

func (s *idle) Await() bool                      { return s.b.Loop() }
func (s *idle) HandleInput(*transport.Coroutine) {}
func (s *idle) End()                             {}
