package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fetch from an agent in process allocates nothing for a value, all the way
// from the client's socket to the function of the metric and back. (Without the
// race detector it allocates nothing at all.)
func TestNoAllocationPerValue(t *testing.T) {
	var list pmda.List
	for i := range int32(1000) {
		list = append(list, pdu.Inst{ID: i, Name: fmt.Sprint(i)})
	}
	value := func(_ context.Context, v *pmda.Value) error { v.SetInt(int64(v.Index())); return nil }
	conf := pmda.Config{Metrics: []pmda.Metric{
		{Item: 1, Type: pdu.MetricU64, Sem: pdu.SemInstant, Fetch: value},
		{Item: 2, Type: pdu.MetricU64, Sem: pdu.SemInstant, Fetch: value, InDom: &pmda.InDom{Insts: list}},
	}}
	r := newHarness(t, func(c *Config) {
		c.Open = func(_ context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			conf := conf
			conf.Domain = spec.Domain
			a, err := pmda.New(conf)
			if err != nil {
				return nil, err
			}
			return &transport.Conn{Transport: transport.Local(a), In: -1, Out: -1}, nil
		}
	}, nil)
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
	var allocs [3]uint64 // in 50 fetches, by item
	for item, size := range []int{1: 4, 2: 1000 * (8 + 12)} {
		if size == 0 {
			continue
		}
		req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, item)}})
		if err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 64<<10)
		n := 0
		fetch := func() {
			if _, err := c.Conn.Write(req); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c.Conn, reply[:4]); err != nil {
				t.Fatal(err)
			}
			n = int(binary.BigEndian.Uint32(reply))
			if _, err := io.ReadFull(c.Conn, reply[4:n]); err != nil {
				t.Fatal(err)
			}
		}
		// Buffers grow, then they are there. What else the runtime does
		// meanwhile is seldom done each time.
		allocs[item] = 1 << 63
		for range 20 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 50 {
				fetch()
			}
			runtime.ReadMemStats(&after)
			allocs[item] = min(allocs[item], after.Mallocs-before.Mallocs)
		}
		if n < size {
			t.Errorf("item %d: a reply of %d bytes, want more than %d", item, n, size)
		}
	}
	if allocs[2] > allocs[1]+50*10 {
		t.Errorf("%d allocations in 50 fetches of a value, %d in 50 of 1000 values", allocs[1], allocs[2])
	}
}
