package calls

import (
	"slices"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fetch asks the agent first that usually takes longest; others stay in order,
// and one that is not known comes last. Domains without an agent have one Sub.
func TestSlowestFirst(t *testing.T) {
	var list []*agentset.Agent
	for domain, usual := range map[int]time.Duration{1: 5, 2: 0, 3: 70, 4: 5, 5: 8} {
		a, now := new(agentset.Set).NewAgent(&pmcdconf.Agent{Domain: domain}), time.Now()
		a.RequestAnswered(now, now, now.Add(usual))
		list = append(list, a)
	}
	c := &Caller{Routes: routes.New(list, nil)}
	for range 2 { // a Caller is used again
		for _, domain := range []int{4, 9, 1, 2, 3, 5, 511, 10} {
			p := c.Sub(domain)
			p.Fetch.PMIDs = append(p.Fetch.PMIDs, pdu.NewPMID(domain, 0, 0))
		}
		var got []int
		for _, p := range c.SlowestFirst() {
			for _, id := range p.Fetch.PMIDs {
				got = append(got, id.Domain())
			}
			if p.Absent != (p.Fetch.PMIDs[0].Domain() == 9) {
				t.Errorf("domain %d without an agent: %v", p.Fetch.PMIDs[0].Domain(), p.Absent)
			}
		}
		if want := []int{3, 5, 4, 1, 9, 511, 10, 2}; !slices.Equal(got, want) {
			t.Errorf("asked in the order %v, want %v", got, want)
		}
		c.Reset()
	}
}

// A session that waits for its turn at an agent has no large buffers for replies. Afterwards
// it has one again if there is one.
func TestBuffersBeforeCall(t *testing.T) {
	c := &Caller{
		Slot: slots.New().Slot(nil),
		Out:  append(make([]byte, 0, 2*MaxNormal), "head"...),
		Ans:  make([]byte, 2*MaxNormal),
		Subs: []Sub{{Reply: make([]byte, 2*MaxKept)}, {Reply: make([]byte, 0, MaxNormal)}},
	}
	c.Result.Reset(c.Out, 0)
	c.BeforeWait(false)
	if n := max(cap(c.Out), cap(c.Ans), c.Result.Cap(), cap(c.Subs[0].Reply)); n > MaxNormal || string(c.Out) != "head" || len(c.Ans) != 0 {
		t.Errorf("%d bytes in a buffer, %q, %d", n, c.Out, len(c.Ans))
	}
	if n := cap(c.Subs[1].Reply); n != MaxNormal {
		t.Errorf("a buffer that is not large has %d bytes, want %d", n, MaxNormal)
	}
	if c.pooled != 2 {
		t.Errorf("%d buffers were put into the pool, want 2", c.pooled)
	}
	for range 2 { // the pool may have lost one
		if c.Out = c.fromPool(c.Out); string(c.Out) != "head" {
			t.Fatalf("%q", c.Out)
		}
	}
	if b := c.fromPool(make([]byte, 1)); cap(b) > 8 || c.pooled != 0 {
		t.Errorf("a buffer of %d bytes in place of none", cap(b))
	}
}
