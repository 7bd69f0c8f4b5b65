package wire_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// textAgent has a text of its own for each client and metric, of many sizes. At times
// it replies late.
type textAgent struct{ oneMetricAgent }

func (textAgent) Text(_ context.Context, o agents.Origin, id pdu.PMID, _ bool) (string, error) {
	if rand.IntN(500) == 0 {
		time.Sleep(30 * time.Millisecond)
	}
	return textOf(o.Client, id), nil
}

func (textAgent) InDomText(context.Context, agents.Origin, pdu.InDom, bool) (string, error) {
	return "", pdu.ErrnoText
}

func textOf(client int32, id pdu.PMID) string {
	word := fmt.Sprintf("%d.%v ", client, id)
	return strings.Repeat(word, 1+id.Item()*id.Item()/200) // up to 60 KiB
}

// The memory of a reply is not used for another one while a caller or a reader has
// it: each caller gets the text that it asked for, whole, while replies are late,
// are read by other callers, and Clients are closed.
func TestStressReuse(t *testing.T) {
	testutil.CheckGoroutines(t)
	const callers, rounds, batch = 8, 120, 3
	for i, pair := range []pairFunc{socketPair, pipePair} {
		var mu sync.Mutex // guards open
		var client atomic.Pointer[wire.Client]
		var served sync.WaitGroup
		open := func() {
			mu.Lock()
			defer mu.Unlock()
			if c := client.Load(); c != nil {
				if c.Err() == nil {
					return
				}
				c.Close()
			}
			here, there := pair(t)
			served.Go(func() { serve.Serve(context.Background(), textAgent{}, there) })
			c, err := wire.Dial(t.Context(), here, wire.Options{Depth: 4})
			if err != nil {
				t.Error(err)
				return
			}
			client.Store(c)
		}
		open()
		var whole, failed atomic.Int64
		var wg sync.WaitGroup
		for number := range int32(callers) {
			wg.Go(func() {
				var calls [batch]transport.Call
				var replies [batch]transport.Reply
				var ids [batch]pdu.PMID
				var dst []byte
				for range rounds {
					c := client.Load()
					for k := range calls {
						ids[k] = pdu.NewPMID(400, int(number), rand.IntN(1024))
						req, _ := pdu.Append(nil, 0, &pdu.TextReq{Ident: uint32(ids[k]), Kind: pdu.TextPMID | pdu.TextOneLine})
						calls[k] = transport.Call{Origin: agents.Origin{Client: number}, Req: req, Batched: true, Timeout: 20 * time.Millisecond}
						var err error
						if replies[k], err = c.Send(&calls[k]); err != nil {
							replies[k] = nil
						}
					}
					for _, k := range rand.Perm(batch) {
						if replies[k] == nil {
							failed.Add(1)
							continue
						}
						var err error
						if dst, err = replies[k].Recv(dst[:0]); err != nil {
							failed.Add(1)
							continue
						}
						var text pdu.Text
						if _, err := pdu.ParseInto(dst, &text); err != nil || text.Text != textOf(number, ids[k]) {
							t.Errorf("%d of %v: %d bytes, %v", number, ids[k], len(text.Text), err)
						}
						whole.Add(1)
					}
					testutil.Until(testutil.Hangs, func() bool { return c.State() != transport.Late || c.Err() != nil })
					if rand.IntN(60) == 0 {
						c.Close()
					}
					if c.Err() != nil {
						open()
					}
				}
			})
		}
		wg.Wait()
		client.Load().Close()
		served.Wait()
		if whole.Load() == 0 {
			t.Error("no text at all")
		}
		t.Logf("stream %d: %d texts, %d errors", i, whole.Load(), failed.Load())
	}
}
