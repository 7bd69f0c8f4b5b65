package wire_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A caller that has sent to an agent and is busy elsewhere holds up nobody:
// the next caller reads the reply on its behalf.
func TestReplyIsReadForTheAbsent(t *testing.T) {
	checkGoroutines(t)
	c := serve(t, answer{}, wire.Options{})
	first := send(t, c, 0, true)
	for range 3 {
		second := send(t, c, 0, true) // reads the reply to the one before
		if b, err := first.Recv([]byte("x")); err != nil || string(b[:1]) != "x" {
			t.Fatal(err)
		}
		first = second
	}
	if _, err := first.Recv(nil); err != nil {
		t.Fatal(err)
	}

	// And so does one who waited in front of one that is absent.
	first = send(t, c, 0, true)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			call := send(t, c, 0, true)
			if _, err := call.Recv(nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := first.Recv(nil); err != nil {
		t.Error(err)
	}
}

// gate is an answer whose Desc of another metric waits to be let through.
type gate struct {
	answer
	entered, open chan struct{}
}

func (g gate) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != answerID {
		g.entered <- struct{}{}
		<-g.open
	}
	return g.answer.Desc(ctx, o, id)
}

// A late agent costs its caller the timeout and others nothing. When the
// reply has come it is thrown away, and the agent is as good as before.
func TestLate(t *testing.T) {
	checkGoroutines(t)
	g := gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	states := make(chan wire.State, 10)
	cd := serve(t, g, wire.Options{OnState: func(s wire.State) { states <- s }})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := cd.Send(&transport.Call{Req: req, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-g.entered
	waited := make(chan error) // by one who waits for the slot
	go func() {
		waited <- agenttest.Do(cd, agents.Origin{}, &pdu.DescReq{PMID: answerID}, new(pdu.Desc))
	}()
	if b, err := reply.Recv([]byte("x")); err != transport.ErrLate || string(b) != "x" {
		t.Errorf("Recv: %q, %v, want ErrLate", b, err)
	}
	if err := <-waited; err != transport.ErrLate {
		t.Errorf("waiting Send: %v, want ErrLate", err)
	}
	if _, err := cd.Send(&transport.Call{Req: req}); err != transport.ErrLate {
		t.Errorf("Send: %v, want ErrLate", err)
	}
	if s := <-states; s != wire.Late || cd.State() != wire.Late {
		t.Errorf("state %v, told %v, want late", cd.State(), s)
	}
	close(g.open)
	eventually(t, "well again", func() bool { return cd.State() == wire.Ready })
	if s := <-states; s != wire.Ready {
		t.Errorf("told %v, want ready", s)
	}
	agenttest.Test(t, late{cd, g}, answerID)
}

// late lets the suite through a gate that is open.
type late struct {
	transport.Transport
	g gate
}

func (l late) Send(c *transport.Call) (transport.Reply, error) {
	r, err := l.Transport.Send(c)
	return lateReply{r, l.g}, err
}

type lateReply struct {
	transport.Reply
	g gate
}

func (r lateReply) Recv(dst []byte) ([]byte, error) {
	b, err := r.Reply.Recv(dst)
	select {
	case <-r.g.entered:
	default:
	}
	return b, err
}

// One who waits behind others for longer than its timeout gives up, and the
// agent is not late for it.
func TestWaitHasABound(t *testing.T) {
	checkGoroutines(t)
	g := gate{entered: make(chan struct{}, 1), open: make(chan struct{})}
	cd := serve(t, g, wire.Options{})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := cd.Send(&transport.Call{Req: req, Timeout: 0})
	if err != nil {
		t.Fatal(err)
	}
	reply := make(chan error)
	go func() {
		_, err := sent.Recv(nil)
		reply <- err
	}()
	<-g.entered
	eventually(t, "another reads", func() bool {
		c := transport.Call{Req: req, Timeout: 10 * time.Millisecond}
		_, err := cd.Send(&c)
		return err == transport.ErrLate
	})
	if cd.State() != wire.Ready {
		t.Errorf("state %v, want ready", cd.State())
	}
	close(g.open)
	if err := <-reply; err != nil {
		t.Error(err)
	}
}

// An agent that reads nothing is late, and gets all of the request when it
// reads again.
func TestAgentThatDoesNotRead(t *testing.T) {
	checkGoroutines(t)
	c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", strings.Replace(hello, "head -c 36", "head -c 20", 1)+
		`sleep 0.3; head -c 400028 >/dev/null; printf '`+code+`'; `+take+`printf '`+code+`'; cat >/dev/null`)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, 100_000)})
	if err != nil {
		t.Fatal(err)
	}
	call := transport.Call{Req: req, Timeout: 50 * time.Millisecond}
	_, err = transport.Do(c, &call, nil)
	if err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	eventually(t, "well again", func() bool { return c.State() == wire.Ready })
	if err := desc(c); err != pdu.ErrnoPMID {
		t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
	}
}
