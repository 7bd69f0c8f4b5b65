package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Metrics of one agent each.
const (
	numClients = "pmcd.numclients"
	sampleOne  = "sample.long.one"
)

// kernelMetrics are the metrics of a usual overview of a host.
var kernelMetrics = []string{
	"kernel.all.load", "kernel.percpu.cpu.user", "kernel.percpu.cpu.sys", "kernel.percpu.cpu.idle",
	"mem.util.used", "mem.util.free", "mem.util.cached",
	"disk.dev.read", "disk.dev.write", "disk.dev.total_bytes",
	"network.interface.in.bytes", "network.interface.out.bytes",
}

// addr is that of the daemon on TCP.
func (d *daemon) addr() string { return fmt.Sprintf("127.0.0.1:%d", d.port) }

// open connects for requests that are not measured.
func (d *daemon) open(secure bool) (*pmapi.Client, error) {
	host := d.addr()
	if secure {
		host = "pcps://" + host
	}
	return pmapi.Dial(context.Background(), host, pmapi.Options{AnyCertificate: true, Timeout: replyTimeout})
}

// with calls fn with a connection of its own, for requests that are not measured.
func (r *run) with(fn func(c *pmapi.Client) error) error {
	c, err := r.open(r.setup.tls != "")
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// ids looks names up, all of which must be known. A name that ends in ".*" stands for all
// metrics below it.
func (r *run) ids(names ...string) (ids []pdu.PMID, err error) {
	_, ids, err = r.below(names...)
	return ids, err
}

// below is ids with the names.
func (r *run) below(patterns ...string) (names []string, ids []pdu.PMID, err error) {
	err = r.with(func(c *pmapi.Client) error {
		for _, p := range patterns {
			top, all := strings.CutSuffix(p, ".*")
			if !all {
				names = append(names, p)
				continue
			}
			for name, err := range c.Traverse(context.Background(), top) {
				if err != nil {
					return fmt.Errorf("%s: %w", top, err)
				}
				names = append(names, name)
			}
		}
		ids, err = c.Lookup(context.Background(), names...)
		return err
	})
	return names, ids, err
}

// valuesOf returns the value sets of a reply to a fetch of ids.
func valuesOf(b []byte, ids []pdu.PMID) (sets []pdu.ValueSet, err error) {
	_, m, err := pdu.Parse(bytes.Clone(b))
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case *pdu.Result:
		sets = m.Sets
	case *pdu.HighResResult:
		sets = m.Sets
	default:
		return nil, fmt.Errorf("%v in reply to a fetch", m.Type())
	}
	if !slices.EqualFunc(sets, ids, func(s pdu.ValueSet, id pdu.PMID) bool { return s.PMID == id }) {
		return nil, fmt.Errorf("%d value sets, not those of the %d metrics", len(sets), len(ids))
	}
	return sets, nil
}

// count returns the number of values. It is an error if there is none or, if all is set, if a metric
// has none.
func count(sets []pdu.ValueSet, all bool) (n int, err error) {
	for _, s := range sets {
		n += len(s.Values)
		if err == nil && (s.Err != 0 || len(s.Values) == 0) {
			err = fmt.Errorf("%v: %w", s.PMID, cmp.Or(s.Err, pdu.ErrnoValue))
		}
	}
	if n > 0 && !all {
		err = nil
	}
	return n, err
}

// fetchLoad is a load of fetches by n clients. If all is set, each metric must have a value. The
// first reply is checked in full. One with other numbers of values has another length, so only
// such a reply is checked in full again.
func (r *run) fetchLoad(n int, all bool, ids ...pdu.PMID) (load, error) {
	req, length := encode(&pdu.Fetch{PMIDs: ids}), 0
	op := func(c *client, _ int) error {
		b, err := c.call(req)
		if err != nil {
			return err
		}
		if len(b) == length || length > 0 && !all {
			return relay.CheckResult(b, ids)
		}
		sets, err := valuesOf(b, ids)
		if err != nil {
			return err
		}
		values, err := count(sets, all)
		if length == 0 {
			length, r.got["values"] = len(b), float64(values)
		}
		return err
	}
	return load{clients: n, open: r.dial, op: op}, r.once(func(c *client) error { return op(c, 0) })
}

// fetch measures fetches of metrics by n clients: of total metrics, for which the names are
// repeated if necessary, or, if total is 0, of each of the names. A host need not have values of all
// metrics below a name that ends in ".*".
func fetch(n, total int, names ...string) func(r *run) error {
	return func(r *run) error {
		ids, err := r.ids(names...)
		if err != nil {
			return err
		}
		for i := 0; len(ids) < total; i++ {
			ids = append(ids, ids[i])
		}
		if total > 0 {
			ids = ids[:total]
		}
		below := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".*") })
		l, err := r.fetchLoad(n, !below, ids...)
		if err != nil {
			return err
		}
		r.measure(l)
		return nil
	}
}

// fetch returns the values of metrics.
func (c *client) fetch(ids ...pdu.PMID) ([]pdu.ValueSet, error) {
	b, err := c.call(encode(&pdu.Fetch{PMIDs: ids}))
	if err != nil {
		return nil, err
	}
	return valuesOf(b, ids)
}
