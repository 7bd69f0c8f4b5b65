package wire_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// recordingAgent is a oneMetricAgent that records its calls.
type recordingAgent struct {
	oneMetricAgent
	mu     sync.Mutex
	events []string
}

func (a *recordingAgent) record(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, s)
}

func (a *recordingAgent) recorded() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.events)
}

func (a *recordingAgent) SetAttr(client int32, attr pdu.Attr) {
	a.record(fmt.Sprintf("%d is %s", client, attr.Value))
}

func (a *recordingAgent) EndContext(client int32) { a.record(fmt.Sprintf("%d ends", client)) }

func (a *recordingAgent) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.record(fmt.Sprintf("%d asks", o.Client))
	return a.oneMetricAgent.Desc(ctx, o, id)
}

// The attributes of a client are sent before its requests, and its end before the
// requests of the next client with its number. An idle agent gets them at once.
func TestNotices(t *testing.T) {
	testutil.CheckGoroutines(t)
	a := new(recordingAgent)
	c := serveAgent(t, a, wire.Options{})
	if !c.WantsAttrs() {
		t.Fatal("wants no attributes")
	}
	attr := func(s string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(s)}} }
	c.Notify(transport.Notice{Client: 1, Attrs: attr("alice")})
	testutil.Eventually(t, "notified when idle", func() bool { return len(a.recorded()) == 1 })

	busy := sendDescReqTimeout(t, c, 0, true) // nothing may be sent now
	c.Notify(transport.Notice{Client: 1, End: true})
	c.Notify(transport.Notice{Client: 1, Attrs: attr("bob")})
	c.Notify(transport.Notice{Client: 1, End: true})
	c.Notify(transport.Notice{Client: 1, Attrs: attr("carol")})
	if _, err := busy.Recv(nil); err != nil {
		t.Fatal(err)
	}
	transporttest.Do(c, agents.Origin{Client: 1}, &pdu.DescReq{PMID: metricID}, new(pdu.Desc))
	want := []string{"1 is alice", "0 asks", "1 ends", "1 is carol", "1 asks"}
	if got := a.recorded(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
