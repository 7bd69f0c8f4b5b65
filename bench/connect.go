package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// served requests a descriptor, which shows that pmcd has accepted the client.
func served(c *client) error {
	d, err := ask[*pdu.Desc](c, &pdu.DescReq{PMID: numClients})
	if err == nil && d.PMID != numClients {
		err = fmt.Errorf("descriptor of %v, not of %v", d.PMID, numClients)
	}
	return err
}

// connects measures n clients that connect, send a greeting and disconnect, again
// and again. Every 32nd time they send a request.
func connects(n int) func(r *run) error {
	return func(r *run) error {
		r.measure(load{clients: n, op: func(_ *client, seq int) error {
			c, err := r.dial()
			if err != nil {
				return err
			}
			defer c.Close()
			if seq%32 == 0 {
				err = served(c)
			}
			return err
		}})
		return nil
	}
}

// connectStormMeasures are the measures of connectStorm. The goal is for the time
// until all clients have a reply, in milliseconds.
func connectStormMeasures(goal float64) []measure {
	return []measure{{key: "all", unit: "ms", goal: goal, own: true}, {key: "failed"}}
}

// connectStorm measures n clients that connect and send a request at the same
// moment: the time until the last one has its reply.
func connectStorm(n int) func(r *run) error {
	return func(r *run) error {
		// These clients use the network poller. More threads would disturb it.
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
		errs := make([]error, n)
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range errs {
			wg.Go(func() {
				c, err := r.dialNet()
				if err == nil {
					defer c.Close()
					err = served(c)
				}
				errs[i] = err
			})
		}
		wg.Wait()
		took := time.Since(begin).Seconds()
		r.got["all"], r.got["rate"] = took*1e3, float64(n)/took
		for _, err := range errs {
			if err != nil {
				r.count(timing{errs: 1, err: err})
			}
		}
		r.got["failed"] = float64(r.errs)
		return nil
	}
}

// idleCounts are the numbers of idle clients of the scenario "clients".
var idleCounts = []int{0, 10, 100, 300, 1000, 3000, 10_000}

// idleMeasures are the measures of idleClients.
var idleMeasures = func() []measure {
	all := []measure{
		{key: "1000/none", goal: 1.1, own: true},
		{key: "10000/none", goal: 1.2, own: true},
		{key: "KiB/client", unit: "KiB", goal: 6, own: true},
	}
	for _, n := range idleCounts {
		all = append(all, measure{key: fmt.Sprintf("p50@%d", n), unit: "µs"})
	}
	return all
}()

// idleClients connects more and more clients that stay idle, and measures the
// fetches of another client.
func idleClients(r *run) error {
	var idle []*client
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	before := rss(r.pid())
	for _, n := range idleCounts {
		for len(idle) < n {
			c, err := r.dial()
			if err != nil {
				return fmt.Errorf("client %d: %w", len(idle)+1, err)
			}
			idle = append(idle, c)
		}
		if n > 0 {
			if err := served(idle[n-1]); err != nil {
				return fmt.Errorf("client %d: %w", n, err)
			}
			r.got["KiB/client"] = float64(rss(r.pid())-before) / 1024 / float64(n)
		}
		if err := fetch(1, numClients)(r); err != nil {
			return err
		}
		r.got[fmt.Sprintf("p50@%d", n)] = r.got["p50"]
		if n >= 1000 {
			r.got[fmt.Sprintf("%d/none", n)] = r.got["p50"] / r.got["p50@0"]
		}
	}
	for range 100 { // idle clients still get replies
		if err := served(idle[rand.IntN(len(idle))]); err != nil {
			return fmt.Errorf("idle client: %w", err)
		}
	}
	return nil
}

// memory measures the memory of the daemon when it has served some requests and no
// client is connected any more.
func memory(r *run) error {
	if err := fetchNames(4, 0, benchMetrics...)(r); err != nil {
		return err
	}
	below := treeOf(r.pid())
	helpers := int64(0)
	for _, pid := range below.helpers {
		helpers += rss(pid)
	}
	r.got["RSS"], r.got["RSS helpers"] = float64(rss(r.pid()))/1e6, float64(helpers)/1e6
	return nil
}
