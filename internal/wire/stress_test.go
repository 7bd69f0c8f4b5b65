package wire_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// flakyPMDA is a PMDA that answers each DESC_REQ with the requested PMID, in pieces.
// At random it is slow, late or not ready, or closes the stream. unready says
// whether it may use PM_ERR_PMDANOTREADY: with several requests in flight it may
// not.
func flakyPMDA(conn wire.Conn, unready bool) {
	defer conn.Close()
	put := func(ms ...pdu.Message) {
		var b []byte
		for _, m := range ms {
			b, _ = pdu.Append(b, 0, m)
		}
		for len(b) > 0 {
			n, err := conn.Write(b[:1+rand.IntN(len(b))])
			if err != nil {
				return
			}
			b = b[n:]
		}
	}
	ready, notReady := &pdu.Error{Code: pdu.ErrnoReady}, &pdu.Error{Code: pdu.ErrnoNotReady}
	put(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(pdu.FeatureAuth)}})
	r := pdu.NewReader(conn, 0)
	for {
		b, err := r.Next()
		if err != nil {
			return
		}
		var m pdu.DescReq
		if _, err := pdu.ParseInto(b, &m); err != nil {
			continue // PROFILE, ATTR, end of context
		}
		answer := &pdu.Desc{PMID: m.PMID}
		switch choice := rand.IntN(200); {
		case choice == 0:
			return
		case choice < 3:
			time.Sleep(40 * time.Millisecond) // twice the callers' timeout
			put(answer)
		case choice < 5 && unready:
			put(notReady)
			put(ready)
		case choice < 7 && unready:
			put(notReady, answer, ready)
		case choice < 9 && unready:
			put(answer)
			put(notReady) // crosses the next request
			put(ready)
		case choice < 11:
			put(ready, answer)
		default:
			put(answer)
		}
	}
}

// Many callers call several flaky agents in any order, and either side ends the
// stream at any time. Each call gets its own reply or an error, and all calls end.
func TestStress(t *testing.T) {
	for _, depth := range []int{1, 4} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) { stress(t, depth) })
	}
}

func stress(t *testing.T, depth int) {
	testutil.CheckGoroutines(t)
	const agentCount, callers, rounds = 4, 16, 150
	var mu sync.Mutex // one opens at a time
	var clients [agentCount]atomic.Pointer[wire.Client]
	open := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		if c := clients[i].Load(); c != nil {
			if c.Err() == nil {
				return
			}
			c.Close()
		}
		here, there := [agentCount]pairFunc{socketPair, pipePair, pipePair, directPair}[i](t)
		go flakyPMDA(there, depth == 1)
		c, err := wire.Dial(t.Context(), here, wire.Options{Depth: depth})
		if err != nil {
			t.Error(err)
			return
		}
		clients[i].Store(c)
	}
	for i := range clients {
		open(i)
		defer func() { clients[i].Load().Close() }()
	}
	failed := func(i int, err error) {
		if err != transport.ErrLate && err != transport.ErrNotReady {
			open(i)
		}
	}
	var answers atomic.Int64
	var wg sync.WaitGroup
	for client := range int32(callers) {
		wg.Go(func() {
			var calls [agentCount]transport.Call
			profile := transport.NewProfile(new(pdu.Profile))
			for round := range rounds {
				order := rand.Perm(agentCount)[:1+rand.IntN(agentCount)]
				var sent []int
				var to [agentCount]*wire.Client
				var replies [agentCount]transport.Reply
				for _, i := range order {
					c := &calls[i]
					req, _ := pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(int(client), round, i)})
					*c = transport.Call{
						Origin: agents.Origin{Client: client}, Req: req,
						Batched: len(order) > 1, MayBlock: rand.IntN(2) == 0, Timeout: 20 * time.Millisecond,
					}
					if group := rand.Uint64N(3); group > 0 {
						c.Key = &fairqueue.Key{Group: fairqueue.Group{ID: group}, Member: uint64(client)}
					}
					if rand.IntN(2) == 0 {
						c.Profile = profile
					}
					to[i] = clients[i].Load()
					var err error
					if replies[i], err = to[i].Send(c); err != nil {
						failed(i, err)
						continue
					}
					sent = append(sent, i)
				}
				rand.Shuffle(len(sent), func(a, b int) { sent[a], sent[b] = sent[b], sent[a] })
				for _, i := range sent {
					b, err := replies[i].Recv(nil)
					if err != nil {
						failed(i, err)
						continue
					}
					var d pdu.Desc
					if _, err := pdu.ParseInto(b, &d); err != nil || d.PMID != pdu.NewPMID(int(client), round, i) {
						t.Errorf("got %v, %v; want %v", d.PMID, err, pdu.NewPMID(int(client), round, i))
					}
					answers.Add(1)
				}
				for _, i := range order {
					testutil.Until(testutil.Hangs, func() bool { return to[i].State() != transport.Late || to[i].Err() != nil })
				}
				if rand.IntN(10) == 0 {
					i := rand.IntN(agentCount)
					clients[i].Load().Notify(transport.Notice{Client: client, End: true, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("1")}}})
				}
				switch rand.IntN(200) {
				case 0:
					clients[rand.IntN(agentCount)].Load().Close()
				case 1:
					clients[rand.IntN(agentCount)].Load().PeerGone(errors.New("gone"))
				}
			}
		})
	}
	wg.Wait()
	if answers.Load() == 0 {
		t.Error("no answer at all")
	}
	t.Logf("%d answers", answers.Load())
}
