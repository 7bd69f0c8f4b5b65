package wire_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// told is an answer that remembers what it is told.
type told struct {
	answer
	mu   sync.Mutex
	said []string
}

func (a *told) say(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said = append(a.said, s)
}

func (a *told) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.said)
}

func (a *told) SetAttr(client int32, attr pdu.Attr) {
	a.say(fmt.Sprintf("%d is %s", client, attr.Value))
}

func (a *told) EndContext(client int32) { a.say(fmt.Sprintf("%d ends", client)) }

func (a *told) Desc(ctx context.Context, o agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	a.say(fmt.Sprintf("%d asks", o.Client))
	return a.answer.Desc(ctx, o, id)
}

// What a client is comes before its requests, and its end before those of the
// next one with its number; an agent that is idle is told at once.
func TestNotices(t *testing.T) {
	checkGoroutines(t)
	a := new(told)
	c := serve(t, a, wire.Options{})
	if !c.WantsAttrs() {
		t.Fatal("wants no attributes")
	}
	attr := func(s string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte(s)}} }
	c.Notify(transport.Notice{Client: 1, Attrs: attr("alice")})
	eventually(t, "told when idle", func() bool { return len(a.all()) == 1 })

	busy := send(t, c, 0, true) // nothing may be sent now
	c.Notify(transport.Notice{Client: 1, End: true})
	c.Notify(transport.Notice{Client: 1, Attrs: attr("bob")})
	c.Notify(transport.Notice{Client: 1, End: true})
	c.Notify(transport.Notice{Client: 1, Attrs: attr("carol")})
	if _, err := busy.Recv(nil); err != nil {
		t.Fatal(err)
	}
	agenttest.Do(c, agents.Origin{Client: 1}, &pdu.DescReq{PMID: answerID}, new(pdu.Desc))
	want := []string{"1 is alice", "0 asks", "1 ends", "1 is carol", "1 asks"}
	if got := a.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
