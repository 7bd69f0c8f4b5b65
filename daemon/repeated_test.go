package daemon

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/pmcd"
	"github.com/gopcp/pmcd/pdu"
)

// maxIDs is how many PMIDs a fetch of 64 KiB has.
const maxIDs = (64<<10 - pdu.HeaderLen - 16) / 4

// A countingHost is a Host that counts the copies of the list of clients that it makes,
// and the clients in them.
type countingHost struct {
	pmcd.Host
	copies, copied atomic.Int64
}

func (h *countingHost) Clients(ctx context.Context, dst []pmcd.ClientInfo, p pdu.InDomProfile) ([]pmcd.ClientInfo, error) {
	all, err := h.Host.Clients(ctx, dst, p)
	h.copies.Add(1)
	h.copied.Add(int64(len(all) - len(dst)))
	return all, err
}

// Requests for pmcd.client.start_date as often as is possible, with a profile of 16,000
// instances that do not exist, by many clients: each request costs one copy of the list
// of clients, without a client in it. With a profile of all instances it is one copy of
// all clients.
func TestManyTimesStartDate(t *testing.T) {
	h := new(countingHost)
	r := newHarness(t, func(c *Config) {
		c.hooks.wrapHost = func(inner pmcd.Host) pmcd.Host {
			h.Host = inner
			return h
		}
	}, nil)
	r.awaitStarts()
	startDate, indom := pdu.NewPMID(2, 6, 1), pdu.NewInDom(2, 6)
	var absent []int32
	for i := range int32(16000) {
		absent = append(absent, 1<<20+i)
	}
	const clients = 5
	var cs []*client
	for range clients {
		c := r.dial()
		c.send(&pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: absent}}})
		cs = append(cs, c)
	}
	for _, c := range cs {
		c.send(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{startDate}, maxIDs)})
	}
	for _, c := range cs {
		m, ok := c.recv().(*pdu.Result)
		if !ok || len(m.Sets) != maxIDs || len(m.Sets[maxIDs-1].Values) != 0 || m.Sets[maxIDs-1].Err != 0 {
			t.Fatal("not a reply")
		}
	}
	if n, clients := h.copies.Load(), h.copied.Load(); n != int64(len(cs)) || clients != 0 {
		t.Errorf("%d copies of the list with %d clients for %d requests", n, clients, len(cs))
	}

	c := cs[0]
	c.send(&pdu.Profile{})
	if m, ok := c.do(&pdu.Fetch{PMIDs: slices.Repeat([]pdu.PMID{startDate}, 100)}).(*pdu.Result); !ok || len(m.Sets) != 100 || len(m.Sets[99].Values) != clients {
		t.Error("not a reply")
	}
	if n, copied := h.copies.Load(), h.copied.Load(); n != clients+1 || copied != clients {
		t.Errorf("%d copies of the list, with %d clients in the last", n, copied)
	}
}
