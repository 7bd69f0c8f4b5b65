package main

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// served requests a descriptor, which shows that pmcd has accepted the client.
func served(c *client) error {
	id := pdu.NewPMID(2, 0, 3) // pmcd.numclients
	d, err := ask[*pdu.Desc](c, &pdu.DescReq{PMID: id})
	if err == nil && d.PMID != id {
		err = fmt.Errorf("descriptor of %v, not of %v", d.PMID, id)
	}
	return err
}

// connects measures n clients that connect, send a greeting and disconnect, again and again. They
// send a request every so many times: always with TLS, whose handshake the daemon has finished only
// when it replies.
func connects(n, every int) func(r *run) error {
	return func(r *run) error {
		r.measure(load{clients: n, op: func(_ *client, seq int) error {
			return r.once(func(c *client) error {
				if seq%every == 0 {
					return served(c)
				}
				return nil
			})
		}})
		r.got["p50-client"] = r.got["p50"] - r.got["client"] // if there is one client
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
				c, err := dial("tcp4", r.addr(), r.cfg, profile)
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

// idleMeasures are the measures of idleClients with idleCounts.
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
	return r.idle(idleCounts, false, func(n int) error {
		if err := fetch(1, 0, numClients)(r); err != nil {
			return err
		}
		r.got[fmt.Sprintf("p50@%d", n)] = r.got["p50"]
		if n >= 1000 {
			r.got[fmt.Sprintf("%d/none", n)] = r.got["p50"] / r.got["p50@0"]
		}
		return nil
	})
}

// idleSecure measures the memory of 1,000 idle TLS clients, each of which has sent a request. The
// first one is not counted: the daemon uses its code for TLS for the first time.
func idleSecure(withCert bool) func(r *run) error {
	return func(r *run) error {
		all, err := certificates()
		if err != nil {
			return err
		}
		if c := all[r.setup.tls]; withCert {
			r.cfg.Certificates = []tls.Certificate{{Certificate: [][]byte{c.der}, PrivateKey: c.key}}
		}
		if err := r.once(served); err != nil {
			return err
		}
		return r.idle([]int{0, 1000}, true, func(int) error { return nil })
	}
}

// idle connects idle clients and calls measured with each of the counts. If ask is set, each client
// sends a request.
func (r *run) idle(counts []int, ask bool, measured func(n int) error) error {
	var idle []*client
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	kinds := map[string]string{"KiB/client": "VmRSS", "PSS/client": "Pss", "anonymous/client": "RssAnon"}
	before := map[string]int64{}
	for key, name := range kinds {
		before[key] = memoryOf(r.pid(), name)
	}
	for _, n := range counts {
		for len(idle) < n {
			c, err := r.dial()
			if err != nil {
				return fmt.Errorf("client %d: %w", len(idle)+1, err)
			}
			idle = append(idle, c)
			if ask || len(idle) == n {
				if err := served(c); err != nil {
					return fmt.Errorf("client %d: %w", len(idle), err)
				}
			}
		}
		for key, name := range kinds {
			if n > 0 {
				r.got[key] = float64(memoryOf(r.pid(), name)-before[key]) / 1024 / float64(n)
			}
		}
		if err := measured(n); err != nil {
			return err
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
	if err := fetch(4, 0, benchMetrics...)(r); err != nil {
		return err
	}
	below := treeOf(r.pid())
	below.agents = nil
	r.got["RSS"] = float64(rss(r.pid())) / 1e6
	r.got["RSS helpers"] = float64(below.memory("VmRSS"))/1e6 - r.got["RSS"]
	return nil
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
