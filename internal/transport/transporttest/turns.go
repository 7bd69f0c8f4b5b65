package transporttest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A StepAgent is an agent that replies to one request at a time, when the test says so.
type StepAgent struct {
	Transport interface {
		transport.Transport
		Waiting() int // Calls that wait for their turn
	}
	Next  func() (client int32) // waits until the agent has a request
	Reply func()                // replies to it

	// Eventually waits until cond returns true. It is that of package testutil.
	Eventually func(t testing.TB, what string, cond func() bool)
}

// TestTurns checks that clients take turns at an agent. Open returns the agent for one
// test. At most one request is in flight.
func TestTurns(t *testing.T, open func(t *testing.T) StepAgent) {
	t.Run("order", func(t *testing.T) { testOrder(t, open) })
	t.Run("several requests in one call", func(t *testing.T) { testSeveralRequests(t, newStepTest(t, open)) })
	t.Run("waiter", func(t *testing.T) { testWaiter(t, newStepTest(t, open)) })
	t.Run("busy process", func(t *testing.T) { testBusyProcess(t, newStepTest(t, open)) })
	t.Run("late", func(t *testing.T) { testLateWithWaiters(t, newStepTest(t, open)) })
	t.Run("close", func(t *testing.T) { testCloseWithWaiters(t, newStepTest(t, open)) })
	t.Run("timeout", func(t *testing.T) { testTimeoutOfWaiter(t, newStepTest(t, open)) })
}

// A stepTest is a test with a StepAgent and its clients.
type stepTest struct {
	*testing.T
	StepAgent
	clients sync.WaitGroup
}

func newStepTest(t *testing.T, open func(t *testing.T) StepAgent) *stepTest {
	return &stepTest{T: t, StepAgent: open(t)}
}

// do sends one request of a client and returns the error of its reply.
func (s *stepTest) do(client int32, key *fairqueue.Key, timeout time.Duration) error {
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(400, 0, 1)})
	if err != nil {
		return err
	}
	_, err = transport.Do(s.Transport, &transport.Call{
		Origin: agents.Origin{Client: client}, Key: key, Timeout: timeout, Req: req,
	}, nil)
	return err
}

// start starts a client that sends one request and checks that the error is want.
func (s *stepTest) start(client int32, key *fairqueue.Key, timeout time.Duration, want error) {
	s.clients.Go(func() {
		if err := s.do(client, key, timeout); err != want {
			s.Errorf("client %d: got %v, want %v", client, err, want)
		}
	})
}

// await waits until n Calls wait for their turn.
func (s *stepTest) await(n int) {
	s.Helper()
	s.Eventually(s, fmt.Sprintf("%d calls wait", n), func() bool { return s.Transport.Waiting() == n })
}

// keyOf returns the key of a member of a group.
func keyOf(group, member int) *fairqueue.Key {
	return &fairqueue.Key{Group: fairqueue.Group{ID: uint64(group)}, Member: uint64(member)}
}

// A client waits for few of the requests of another one that has sent many before it.
func testOrder(t *testing.T, open func(t *testing.T) StepAgent) {
	const many, victim = 200, 1000
	tests := []struct {
		name  string
		many  func(i int) *fairqueue.Key
		key   *fairqueue.Key // of the victim
		after int            // requests of the others, besides the one in flight
	}{
		{"a host beside another host", func(i int) *fairqueue.Key { return keyOf(1, i) }, keyOf(2, 1), 1},
		{"a process beside another of the same user", func(int) *fairqueue.Key { return keyOf(1, 1) }, keyOf(1, 2), 1},
		{"a host beside three others", func(i int) *fairqueue.Key { return keyOf(1+i%3, i) }, keyOf(4, 1), 3},
		{"the daemon's own request", func(i int) *fairqueue.Key { return keyOf(1, i) }, nil, 0},
		{"a host beside the daemon's own requests", func(int) *fairqueue.Key { return nil }, keyOf(1, 1), many - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStepTest(t, open)
			for i := range many {
				s.start(int32(i), tt.many(i), 0, nil)
				s.await(i) // the first is in flight
			}
			s.start(victim, tt.key, 0, nil)
			s.await(many)
			after := -1
			for i := range many + 1 {
				if client := s.Next(); client == victim {
					after = i - 1
				}
				s.Reply()
			}
			s.clients.Wait()
			if after != tt.after {
				t.Errorf("the request was sent after %d others, want %d", after, tt.after)
			}
		})
	}
}

// The Waiter of a Call is told if the Call has to wait for its turn.
func testWaiter(t *testing.T, s *stepTest) {
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(400, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var waiters [2]Waiter
	for i := range waiters {
		s.clients.Go(func() {
			if _, err := transport.Do(s.Transport, &transport.Call{Req: req, Waiter: &waiters[i]}, nil); err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			s.Next()
		}
	}
	s.await(1)
	s.Reply()
	s.Next()
	s.Reply()
	s.clients.Wait()
	if a, b := waiters[0].Turns(), waiters[1].Turns(); a != 0 || b != 1 {
		t.Errorf("the first of two Calls was told %d times that it waits and the second %d times, want 0 and 1", a, b)
	}
}

// All requests of a Call have one turn.
func testSeveralRequests(t *testing.T, s *stepTest) {
	const several, caller = 5, 100
	for i := range 10 {
		s.start(int32(i), keyOf(1, i), 0, nil)
		s.await(i) // the first is in flight
	}
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(400, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s.clients.Go(func() {
		b, err := transport.Do(s.Transport, &transport.Call{
			Origin: agents.Origin{Client: caller}, Key: keyOf(2, 1), Req: bytes.Repeat(req, several),
		}, nil)
		n := 0
		for ; len(b) > 0; n++ {
			var d pdu.Desc
			size, _, _ := pdu.Header(b)
			if _, err := pdu.ParseInto(b[:size], &d); err != nil {
				s.Error(err)
				return
			}
			b = b[size:]
		}
		if err != nil || n != several {
			s.Errorf("%d replies, %v", n, err)
		}
	})
	s.await(10)
	var sent []int
	for i := range 10 + several {
		if s.Next() == caller {
			sent = append(sent, i)
		}
		s.Reply()
	}
	s.clients.Wait()
	if want := []int{2, 3, 4, 5, 6}; !slices.Equal(sent, want) {
		t.Errorf("the agent had the requests of the call as %d, want %d", sent, want)
	}
}

// A process that always has many requests gets every second turn beside another one of
// the same user that has one at a time.
func testBusyProcess(t *testing.T, s *stepTest) {
	const busy, logger, turns = 1000, 1000, 60
	var stop atomic.Bool
	for i := range int32(busy + 1) {
		key := keyOf(1, 1)
		if i == logger {
			key = keyOf(1, 2)
		}
		s.clients.Go(func() {
			for !stop.Load() {
				if err := s.do(i, key, 0); err != nil {
					s.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	var sent []int
	for i := range turns {
		client := s.Next()
		s.await(busy)
		if client == logger {
			sent = append(sent, i)
		}
		stop.Store(i == turns-1)
		s.Reply()
	}
	for range busy {
		s.Next()
		s.Reply()
	}
	s.clients.Wait()
	if len(sent) < turns/2-1 {
		s.Errorf("the logger had %d of %d turns: %v", len(sent), turns, sent)
	}
}

// startWaiters starts clients of several groups, whose requests must fail with want,
// and whose turn does not come.
func (s *stepTest) startWaiters(want error) (n int) {
	for i := range int32(20) {
		key := keyOf(int(i)%4, int(i)%8)
		if i == 7 {
			key = nil
		}
		s.start(i, key, 0, want)
	}
	return 20
}

// All that wait fail when the agent becomes late, and none of their requests is sent.
func testLateWithWaiters(t *testing.T, s *stepTest) {
	const first, last = 100, 101
	s.start(first, keyOf(1, 1), 300*time.Millisecond, transport.ErrLate)
	if got := s.Next(); got != first {
		t.Fatalf("client %d is the first", got)
	}
	s.startWaiters(transport.ErrLate)
	s.clients.Wait()
	if n := s.Transport.Waiting(); n != 0 {
		t.Errorf("%d calls wait", n)
	}
	s.Reply()
	s.Eventually(t, "ready again", func() bool { return s.Transport.State() == transport.Ready })
	s.start(last, keyOf(1, 1), 0, nil)
	if got := s.Next(); got != last {
		t.Errorf("the next request is of client %d, want %d", got, last)
	}
	s.Reply()
	s.clients.Wait()
}

// All that wait fail at the end of the Transport.
func testCloseWithWaiters(t *testing.T, s *stepTest) {
	s.start(100, keyOf(1, 1), 0, transport.ErrClosed)
	s.Next()
	s.await(s.startWaiters(transport.ErrClosed))
	s.Transport.Close()
	s.clients.Wait()
	if n := s.Transport.Waiting(); n != 0 {
		t.Errorf("%d calls wait", n)
	}
	s.Reply()
}

// A client that has waited for its timeout gets no turn any more, and those behind it
// get theirs. The agent is not late.
func testTimeoutOfWaiter(t *testing.T, s *stepTest) {
	s.start(100, keyOf(1, 1), 0, nil)
	s.Next()
	s.start(101, keyOf(2, 1), 0, nil)
	s.await(1)
	for i := range 3 { // of other groups, and of those that wait
		if err := s.do(102, keyOf(1+i, 1), 10*time.Millisecond); err != transport.ErrLate {
			t.Errorf("got %v, want %v", err, transport.ErrLate)
		}
	}
	s.await(1)
	if state := s.Transport.State(); state != transport.Ready {
		t.Errorf("the agent is %v", state)
	}
	s.Reply()
	if got := s.Next(); got != 101 {
		t.Errorf("the next request is of client %d, want 101", got)
	}
	s.Reply()
	s.clients.Wait()
}
