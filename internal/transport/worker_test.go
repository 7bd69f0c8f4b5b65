package transport_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

func TestLocal(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	w.LimitReplies(16 << 20)
	transporttest.Test(t, w, id(plain))
	if err := transporttest.Do(w, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{id(huge)}}, new(pdu.Result)); err != pdu.ErrnoTooBig {
		t.Errorf("huge: %v, want %v", err, pdu.ErrnoTooBig)
	}
	w.Close()
	if !a.closed.Load() {
		t.Error("the agent is not closed")
	}
	<-w.Done()
	if err := desc(w, plain); err != transport.ErrClosed || w.Err() != err {
		t.Errorf("after Close: %v and %v, want %v", err, w.Err(), transport.ErrClosed)
	}
}

// A panic ends the agent, and the error has its stack.
func TestPanic(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		do           func(w transport.Transport)
	}{
		{"in a request", "answer).Desc", func(w transport.Transport) { desc(w, panics) }},
		{"in a notice", "answer).EndContext", func(w transport.Transport) { w.Notify(transport.Notice{Client: panics, End: true}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := local(t, newAnswer())
			tt.do(w)
			<-w.Done()
			err := desc(w, plain) // it sticks
			if err == nil || !strings.Contains(err.Error(), "ouch") || !strings.Contains(err.Error(), tt.method) {
				t.Errorf("got %v, want ouch and a stack", err)
			}
		})
	}
}

// If a call does not return, its request waits for the timeout and others fail at
// once. When the call has returned, the agent gets the Notices that were queued, and
// takes requests again.
func TestLate(t *testing.T) { synctest.Test(t, testLate) }

func testLate(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	states := make(chan transport.State, 10)
	w.OnState(func(s transport.State) { states <- s })
	c := send(t, w, 1, blocks, 50*time.Millisecond)
	<-a.entered
	waited := make(chan error) // by a goroutine that waits for the slot
	go func() { waited <- desc(w, plain) }()
	if b, err := c.Recv([]byte("x")); err != transport.ErrLate || string(b) != "x" {
		t.Errorf("Recv: %q, %v, want ErrLate", b, err)
	}
	if err := <-waited; err != transport.ErrLate {
		t.Errorf("waiting Send: %v, want ErrLate", err)
	}
	call := request(1, plain, 50*time.Millisecond)
	if _, err := w.Send(call); err != transport.ErrLate {
		t.Errorf("Send: %v, want ErrLate", err)
	}
	if s := <-states; s != transport.Late || w.State() != transport.Late || w.Abandoned() != 1 {
		t.Errorf("reported %v, %v, %d calls abandoned; want late and 1", s, w.State(), w.Abandoned())
	}
	for range 1000 {
		w.Notify(transport.Notice{Client: 1, End: true, Attrs: []pdu.Attr{{Value: []byte("alice")}}})
	}
	w.Notify(transport.Notice{Client: 1, Attrs: []pdu.Attr{{Value: []byte("bob")}}})
	close(a.open)
	if s := <-states; s != transport.Ready {
		t.Errorf("reported %v, want ready", s)
	}
	testutil.Eventually(t, "well again", func() bool { return w.State() == transport.Ready })
	for _, client := range []int32{1, 2} { // the memory of an abandoned call is not used again
		call.Origin.Client = client
		if _, err := transport.Do(w, call, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"1 asks", "1 ends", "1 is bob", "1 asks", "2 asks"}
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A method that heeds its context ends with the wait for it, and with Close.
func TestContextEnds(t *testing.T) { synctest.Test(t, testContextEnds) }

func testContextEnds(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	c := send(t, w, 0, endless, 10*time.Millisecond)
	if _, err := c.Recv(nil); err != transport.ErrLate {
		t.Errorf("got %v, want %v", err, transport.ErrLate)
	}
	testutil.Eventually(t, "well again", func() bool { return w.State() == transport.Ready })
	<-a.entered
	c = send(t, w, 0, endless, 0)
	<-a.entered
	w.Close()
	if _, err := c.Recv(nil); err != transport.ErrClosed {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
	<-w.Done()
	testutil.Eventually(t, "closed", a.closed.Load)
}

// Close does not wait for a method that does not return, in a call or in a
// notice; the agent is closed when it has.
func TestCloseWhileStuck(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	c := send(t, w, 0, blocks, 0)
	<-a.entered
	w.Close()
	if _, err := c.Recv(nil); err != transport.ErrClosed {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
	if a.closed.Load() {
		t.Error("closed during a call")
	}
	close(a.open)
	testutil.Eventually(t, "closed", a.closed.Load)
}

// A reply that its caller does not receive yet holds up no other call.
func TestReplyIsReceivedLater(t *testing.T) {
	w := local(t, newAnswer())
	var calls []transport.Reply
	for range 10 {
		calls = append(calls, send(t, w, 0, plain, 5*time.Second))
	}
	for _, c := range calls {
		if b, err := c.Recv([]byte("x")); err != nil || string(b[:1]) != "x" {
			t.Error(err)
		}
	}
}

// A call that waits behind others for longer than its timeout gets ErrLate, and the
// agent is not late because of it.
func TestWaitHasABound(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	c := send(t, w, 0, blocks, 0)
	<-a.entered
	if _, err := w.Send(request(0, plain, 10*time.Millisecond)); err != transport.ErrLate {
		t.Errorf("got %v, want %v", err, transport.ErrLate)
	}
	if w.State() != transport.Ready {
		t.Errorf("state %v, want ready", w.State())
	}
	close(a.open)
	if _, err := c.Recv(nil); err != nil {
		t.Error(err)
	}
}

// An idle agent gets Notices at once. A busy one gets them after the current request
// and before the next one.
func TestNotices(t *testing.T) {
	a := newAnswer()
	w := local(t, a)
	if !w.WantsAttrs() {
		t.Fatal("wants no attributes")
	}
	attr := func(s string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(s)}} }
	w.Notify(transport.Notice{Client: 1, Attrs: attr("alice")})
	testutil.Eventually(t, "notified when idle", func() bool { return len(a.all()) == 1 })
	c := send(t, w, 0, blocks, 0)
	w.Notify(transport.Notice{Client: 1, End: true})
	w.Notify(transport.Notice{Client: 1, Attrs: attr("bob")})
	w.Notify(transport.Notice{Client: 1, End: true})
	w.Notify(transport.Notice{Client: 1, Attrs: attr("carol")})
	close(a.open)
	if _, err := c.Recv(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, w, 1, plain, 0).Recv(nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"1 is alice", "0 asks", "1 ends", "1 is carol", "1 asks"}
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// flakyAgent answers each DESC_REQ with the requested PMID. At random it is slow or
// late, or panics.
type flakyAgent struct {
	answer
	neverPanics bool
}

func (m *flakyAgent) Desc(ctx context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	switch choice := rand.IntN(200); {
	case choice == 0 && !m.neverPanics:
		panic("at random")
	case choice < 4:
		<-ctx.Done()
	case choice < 8:
		<-time.After(15 * time.Millisecond) // late or nearly
	case choice < 20:
		runtime.Gosched()
	}
	return pdu.Desc{PMID: id}, nil
}

// Many clients send requests to several agents in any order, and the agents end at
// any time. Each client gets the reply to its own request or an error, and all
// goroutines end.
func TestStress(t *testing.T) {
	const agentCount, clients, rounds = 3, 12, 200
	testutil.CheckGoroutines(t)
	var mu sync.Mutex // one opens at a time
	var ws [agentCount]atomic.Pointer[transport.Worker]
	open := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if w := ws[i].Load(); w != nil {
			if w.Err() == nil {
				return
			}
			w.Close()
		}
		ws[i].Store(transport.Local(new(flakyAgent)))
	}
	for i := range ws {
		open(i)
	}
	var answers atomic.Int64
	var wg sync.WaitGroup
	var pool transport.CoroutinePool
	for client := range int32(clients) {
		var calls [agentCount]transport.Call
		oneRound := func(c *transport.Coroutine, round int) {
			var sent []int
			var to [agentCount]*transport.Worker
			var replies [agentCount]transport.Reply
			asked := rand.Perm(agentCount)[:1+rand.IntN(agentCount)]
			for n, i := range asked {
				req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(int(client), round, i)})
				calls[i] = transport.Call{
					Origin: agents.Origin{Client: client}, Req: req,
					Batched: n+1 < len(asked), Coroutine: c, Timeout: 10 * time.Millisecond,
				}
				if group := rand.Uint64N(3); group > 0 {
					calls[i].Key = &fairqueue.Key{Group: fairqueue.Group{ID: group}, Member: uint64(client)}
				}
				to[i] = ws[i].Load()
				var err error
				if replies[i], err = to[i].Send(&calls[i]); err == nil {
					sent = append(sent, i)
				} else if err != transport.ErrLate {
					open(i)
				}
			}
			if c == nil {
				rand.Shuffle(len(sent), func(a, b int) { sent[a], sent[b] = sent[b], sent[a] })
			} else {
				slices.Reverse(sent) // what is not Batched is received at once
			}
			for _, i := range sent {
				b, err := replies[i].Recv(nil)
				if err != nil {
					if err != transport.ErrLate {
						open(i)
					}
					continue
				}
				var d pdu.Desc
				if _, err := pdu.ParseInto(b, &d); err != nil || d.PMID != pdu.NewPMID(int(client), round, i) {
					t.Errorf("got %v, %v; want %v", d.PMID, err, pdu.NewPMID(int(client), round, i))
				}
				answers.Add(1)
			}
			for _, i := range asked {
				testutil.Until(testutil.Hangs, func() bool { return to[i].State() != transport.Late || to[i].Err() != nil })
			}
			if rand.IntN(10) == 0 {
				ws[rand.IntN(agentCount)].Load().Notify(transport.Notice{Client: 10 + client, End: true, Attrs: []pdu.Attr{{Value: []byte("1")}}})
			}
			if rand.IntN(300) == 0 {
				ws[rand.IntN(agentCount)].Load().Close()
			}
		}
		if client%3 == 0 {
			wg.Go(func() {
				for round := range rounds {
					oneRound(nil, round)
				}
			})
			continue
		}
		var batches []func(c *transport.Coroutine)
		for round := range rounds {
			batches = append(batches, func(c *transport.Coroutine) { oneRound(c, round) })
		}
		wg.Go(func() { serve(&pool, batches...) })
	}
	wg.Wait()
	for i := range ws {
		ws[i].Load().Close()
	}
	pool.Close()
	if answers.Load() == 0 {
		t.Error("no answer at all")
	}
	t.Logf("%d answers", answers.Load())
}
