package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Metrics of one agent each.
var (
	numClients = pdu.NewPMID(2, 0, 3)             // pmcd.numclients
	sampleOne  = pdu.NewPMID(domainSample, 0, 10) // sample.long.one
	slowCount  = pdu.NewPMID(domainSlow, 0, 0)
)

// kernelMetrics are the metrics of a usual overview of a host.
var kernelMetrics = []string{
	"kernel.all.load", "kernel.percpu.cpu.user", "kernel.percpu.cpu.sys", "kernel.percpu.cpu.idle",
	"mem.util.used", "mem.util.free", "mem.util.cached",
	"disk.dev.read", "disk.dev.write", "disk.dev.total_bytes",
	"network.interface.in.bytes", "network.interface.out.bytes",
}

// fetchOp returns an operation that fetches metrics and checks that all have
// values. The first reply, of length bytes, was checked in full. A reply with other
// numbers of values has another length, so only such a reply is checked in full
// again.
func fetchOp(ids []pdu.PMID, length int) func(c *client, seq int) error {
	req := encode(&pdu.Fetch{PMIDs: ids})
	return func(c *client, _ int) error {
		b, err := c.call(req)
		if err != nil {
			return err
		}
		if len(b) == length {
			return pdu.CheckResult(b, ids)
		}
		return checkValues(b, ids)
	}
}

// checkValues checks that a reply has a value of each metric.
func checkValues(b []byte, ids []pdu.PMID) error {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return err
	}
	r, ok := m.(*pdu.Result)
	if !ok {
		return fmt.Errorf("%v in reply to a fetch", m.Type())
	}
	if err := haveIDs(r.Sets, ids); err != nil {
		return err
	}
	return haveValues(r.Sets)
}

// fetchLoad is a load of fetches by n clients.
func (r *run) fetchLoad(n int, ids ...pdu.PMID) (load, error) {
	var length int
	err := r.once(func(c *client) error {
		b, err := c.call(encode(&pdu.Fetch{PMIDs: ids}))
		length = len(b)
		if err != nil {
			return err
		}
		return checkValues(b, ids)
	})
	return load{clients: n, open: r.dial, op: fetchOp(ids, length)}, err
}

// fetch measures fetches of metrics by n clients.
func fetch(n int, ids ...pdu.PMID) func(r *run) error {
	return func(r *run) error {
		l, err := r.fetchLoad(n, ids...)
		if err != nil {
			return err
		}
		r.measure(l)
		return nil
	}
}

// fetchNames measures fetches of the named metrics. A request repeats them until it
// has total metrics; if total is 0, it has each once.
func fetchNames(n, total int, names ...string) func(r *run) error {
	return func(r *run) error {
		ids, err := r.ids(names...)
		if err != nil {
			return err
		}
		for i := 0; len(ids) < total; i++ {
			ids = append(ids, ids[i])
		}
		return fetch(n, ids...)(r)
	}
}

// kernel measures fetches of metrics by name. A name that ends in ".*" stands for
// all metrics below it. A host need not have values of all of them.
func kernel(patterns ...string) func(r *run) error {
	return func(r *run) error {
		var names []string
		for _, p := range patterns {
			top, all := strings.CutSuffix(p, ".*")
			if !all {
				names = append(names, p)
				continue
			}
			if err := r.with(func(c *pmapi.Client) error {
				some, _, err := below(c, top)
				names = append(names, some...)
				return err
			}); err != nil {
				return err
			}
		}
		ids, err := r.ids(names...)
		if err != nil {
			return err
		}
		if err := r.with(func(c *pmapi.Client) error {
			var result pmapi.Result
			err := c.Fetch(context.Background(), ids, &result)
			values := 0
			for _, s := range result.Sets {
				values += len(s.Values)
			}
			r.got["values"] = float64(values)
			if err == nil && values == 0 {
				err = pdu.ErrnoValue
			}
			return err
		}); err != nil {
			return err
		}
		req := encode(&pdu.Fetch{PMIDs: ids})
		r.measure(load{clients: 1, open: r.dial, op: func(c *client, _ int) error {
			b, err := c.call(req)
			if err != nil {
				return err
			}
			return pdu.CheckResult(b, ids)
		}})
		return nil
	}
}
