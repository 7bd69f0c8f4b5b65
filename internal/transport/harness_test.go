package transport_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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

// Items of the metrics that an answer has.
const (
	plain   = iota + 1
	blocks  // until it is let through
	panics  // in Fetch and Desc
	exits   // the goroutine
	endless // until ctx ends
	huge    // over 16 MiB
)

func id(item int) pdu.PMID { return pdu.NewPMID(400, 0, item) }

// answer is an Agent that remembers what was called.
type answer struct {
	entered, open chan struct{} // a call of blocks is there, and may go on
	closed        atomic.Bool

	mu   sync.Mutex
	said []string
}

func newAnswer() *answer {
	return &answer{entered: make(chan struct{}, 100), open: make(chan struct{})}
}

func (a *answer) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, fmt.Sprintf(format, args...))
}

func (a *answer) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

func (a *answer) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.say("%d asks", o.Client)
	switch id.Item() {
	case plain:
	case blocks:
		a.entered <- struct{}{}
		<-a.open
	case endless:
		a.entered <- struct{}{}
		<-ctx.Done()
	case panics:
		panic("ouch")
	case exits:
		runtime.Goexit()
	default:
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom}, nil
}

func (a *answer) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		switch id.Item() {
		case plain:
			w.Begin(id)
			w.Word(-1, 42)
		case huge:
			w.Begin(id)
			for i := range int32(20) {
				w.String(i, strings.Repeat("x", 1<<20))
			}
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

func (a *answer) EndContext(client int32) {
	switch client {
	case panics:
		panic("ouch")
	case blocks:
		a.entered <- struct{}{}
		<-a.open
	}
	a.say("%d ends", client)
}
func (a *answer) SetAttr(client int32, attr pdu.Attr) { a.say("%d is %s", client, attr.Value) }
func (a *answer) Close() error                        { a.closed.Store(true); return nil }

// local returns a Worker that is gone when t ends, as is its goroutine.
func local(t *testing.T, a agents.Agent) *transport.Worker {
	t.Helper()
	testutil.CheckGoroutines(t)
	w := transport.Local(a)
	t.Cleanup(func() { w.Close() })
	return w
}

// send sends a DESC_REQ for an item and does not wait for the reply.
func send(t *testing.T, w transport.Transport, client int32, item int, timeout time.Duration) transport.Reply {
	t.Helper()
	r, err := w.Send(request(client, item, timeout))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func request(client int32, item int, timeout time.Duration) *transport.Call {
	req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: id(item)})
	return &transport.Call{Origin: agents.Origin{Client: client}, Req: req, Timeout: timeout}
}

func desc(w transport.Transport, item int) error {
	return transporttest.Do(w, agents.Origin{}, &pdu.DescReq{PMID: id(item)}, new(pdu.Desc))
}
