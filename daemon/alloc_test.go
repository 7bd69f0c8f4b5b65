package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A fetch from an agent in process allocates nothing for a value, all the way
// from the client's socket to the function of the metric and back. (Without the
// race detector it allocates nothing at all.)
func TestNoAllocationPerValue(t *testing.T) {
	c := dialThousands(t)
	c.send(&pdu.Profile{})
	var allocs [3]uint64 // in 10 fetches, by item
	for item, size := range []int{1: 4, 2: 1000 * (8 + 12)} {
		if size == 0 {
			continue
		}
		req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, item)}})
		if err != nil {
			t.Fatal(err)
		}
		used, n := c.leastUse(req)
		allocs[item] = used.Mallocs
		if n < size {
			t.Errorf("item %d: a reply of %d bytes, want more than %d", item, n, size)
		}
	}
	if allocs[2] > allocs[1]+10*10 {
		t.Errorf("%d allocations in 10 fetches of a value, %d in 10 of 1000 values", allocs[1], allocs[2])
	}
}

// A profile in front of each fetch, as pmlogger sends it, makes no difference to the memory
// of a fetch from several agents.
func TestNoAllocationForProfile(t *testing.T) {
	c := dialThousands(t)
	c.send(&pdu.Profile{})
	var bytes [2]uint64 // in 10 fetches: without a profile, and with one
	for i := range bytes {
		var req []byte
		var err error
		if i == 1 {
			req, err = pdu.Append(req, 0, &pdu.Profile{})
		}
		if err == nil {
			req, err = pdu.Append(req, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 2), id(241, 2)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		used, n := c.leastUse(req)
		if bytes[i] = used.TotalAlloc; n < 2*1000*(8+12) {
			t.Errorf("a reply of %d bytes", n)
		}
	}
	// A fetch without its buffers allocates 170 kB. With the race detector, a sync.Pool loses
	// some of them.
	if most := bytes[0] + 10*80_000; bytes[1] > most {
		t.Errorf("10 fetches allocate %d bytes, and %d with a profile in front of each", bytes[0], bytes[1])
	}
}

// dialThousands returns a client of a daemon whose agents in process have a metric with one
// value and one with 1000.
func dialThousands(t *testing.T) *client {
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
		c.Agents.Open = func(_ context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
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
	return r.dial()
}

// leastUse returns what 10 requests allocate at least, and the length of the last reply.
// Buffers grow, then they are there. What else the runtime does meanwhile is seldom done
// each time.
func (c *client) leastUse(req []byte) (least runtime.MemStats, n int) {
	c.t.Helper()
	reply := make([]byte, 64<<10)
	least.Mallocs, least.TotalAlloc = 1<<63, 1<<63
	for range 20 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			if _, err := c.Conn.Write(req); err != nil {
				c.t.Fatal(err)
			}
			if _, err := io.ReadFull(c.Conn, reply[:4]); err != nil {
				c.t.Fatal(err)
			}
			n = int(binary.BigEndian.Uint32(reply))
			if _, err := io.ReadFull(c.Conn, reply[4:n]); err != nil {
				c.t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		least.Mallocs = min(least.Mallocs, after.Mallocs-before.Mallocs)
		least.TotalAlloc = min(least.TotalAlloc, after.TotalAlloc-before.TotalAlloc)
	}
	return least, n
}
