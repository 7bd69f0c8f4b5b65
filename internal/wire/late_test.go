package wire_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A caller that has sent a request and does not call Recv does not hold up other
// callers: the next one reads the reply for it.
func TestReplyReadByAnotherCaller(t *testing.T) {
	testutil.CheckGoroutines(t)
	c := serveAgent(t, oneMetricAgent{}, wire.Options{})
	first := sendDescReqTimeout(t, c, 0, true)
	for range 3 {
		second := sendDescReqTimeout(t, c, 0, true) // reads the reply to the one before
		if b, err := first.Recv([]byte("x")); err != nil || string(b[:1]) != "x" {
			t.Fatal(err)
		}
		first = second
	}
	if _, err := first.Recv(nil); err != nil {
		t.Fatal(err)
	}

	// So does a caller that waits to be admitted.
	first = sendDescReqTimeout(t, c, 0, true)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			call := sendDescReqTimeout(t, c, 0, true)
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

// gatedAgent is a oneMetricAgent whose Desc of another metric waits for release.
type gatedAgent struct {
	oneMetricAgent
	entered, release chan struct{}
}

func (g gatedAgent) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != metricID {
		select {
		case g.entered <- struct{}{}:
			<-g.release
		case <-g.release:
		}
	}
	return g.oneMetricAgent.Desc(ctx, o, id)
}

// If an agent is late, its caller waits for the timeout, and others fail at once.
// When the reply arrives it is discarded, and the agent is ready again.
func TestLate(t *testing.T) {
	testutil.CheckGoroutines(t)
	g := gatedAgent{entered: make(chan struct{}, 1), release: make(chan struct{})}
	states := make(chan transport.State, 10)
	client := serveAgent(t, g, wire.Options{OnState: func(s transport.State) { states <- s }})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := client.Send(&transport.Call{Req: req, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	<-g.entered
	waited := make(chan error) // by a caller that waits to be admitted
	go func() {
		waited <- transporttest.Do(client, agents.Origin{}, &pdu.DescReq{PMID: metricID}, new(pdu.Desc))
	}()
	if b, err := reply.Recv([]byte("x")); err != transport.ErrLate || string(b) != "x" {
		t.Errorf("Recv: %q, %v, want ErrLate", b, err)
	}
	if err := <-waited; err != transport.ErrLate {
		t.Errorf("waiting Send: %v, want ErrLate", err)
	}
	if _, err := client.Send(&transport.Call{Req: req}); err != transport.ErrLate {
		t.Errorf("Send: %v, want ErrLate", err)
	}
	if s := <-states; s != transport.Late || client.State() != transport.Late {
		t.Errorf("state %v, reported %v, want late", client.State(), s)
	}
	close(g.release)
	testutil.Eventually(t, "ready again", func() bool { return client.State() == transport.Ready })
	if s := <-states; s != transport.Ready {
		t.Errorf("reported %v, want ready", s)
	}
	transporttest.Test(t, client, metricID)
}

// A caller that waits to be admitted for longer than its timeout gives up. This does
// not make the agent late.
func TestTimeoutWhileWaiting(t *testing.T) {
	testutil.CheckGoroutines(t)
	g := gatedAgent{entered: make(chan struct{}, 1), release: make(chan struct{})}
	client := serveAgent(t, g, wire.Options{})
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	sent, err := client.Send(&transport.Call{Req: req, Timeout: 0})
	if err != nil {
		t.Fatal(err)
	}
	reply := make(chan error)
	go func() {
		_, err := sent.Recv(nil)
		reply <- err
	}()
	<-g.entered
	testutil.Eventually(t, "another reads", func() bool {
		c := transport.Call{Req: req, Timeout: 10 * time.Millisecond}
		_, err := client.Send(&c)
		return err == transport.ErrLate
	})
	if client.State() != transport.Ready {
		t.Errorf("state %v, want ready", client.State())
	}
	close(g.release)
	if err := <-reply; err != nil {
		t.Error(err)
	}
}

// An agent that does not read is late, and gets the whole request when it reads
// again.
func TestAgentThatDoesNotRead(t *testing.T) {
	testutil.CheckGoroutines(t)
	c, open := startGatedPMDA(t, wire.Options{}, strings.Replace(shellHandshake, "head -c 36", "head -c 20", 1)+
		shellGate+`head -c 400028 >/dev/null; printf '`+errorPDU+`'; `+shellReadRequest+`printf '`+errorPDU+`'; cat >/dev/null`)
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: make([]pdu.PMID, 100_000)})
	if err != nil {
		t.Fatal(err)
	}
	call := transport.Call{Req: req, Timeout: 50 * time.Millisecond}
	_, err = transport.Do(c, &call, nil)
	if err != transport.ErrLate {
		t.Fatalf("got %v, want %v", err, transport.ErrLate)
	}
	open()
	testutil.Eventually(t, "ready again", func() bool { return c.State() == transport.Ready })
	if err := doDescReq(c); err != pdu.ErrnoPMID {
		t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
	}
}
