package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu/pmapi"
)

// startings are the measures of starting.
func startings(goal float64) []measure {
	return []measure{
		{key: "ready", unit: "ms", goal: goal},
		{key: "first", unit: "ms"},
		{key: "cpu", unit: "ms"},
		{key: "RSS", unit: "MB"},
	}
}

// starting measures the time from the start of a pmcd until its own first value and
// until all agents have values, and the CPU time of the daemon until then.
func starting(r *run) error {
	d, err := start(r.base, r.program, r.setup, r.ours, r.args...)
	if err != nil {
		return err
	}
	defer d.stop()
	first, err := d.ready("pmcd.numclients")
	if err != nil {
		return err
	}
	all, err := d.ready(r.setup.metrics()...)
	if err != nil {
		return err
	}
	used := treeOf(d.pid()).usage().daemon
	r.got["first"], r.got["ready"], r.got["cpu"] = first.Seconds()*1e3, all.Seconds()*1e3, used.Seconds()*1e3
	r.got["RSS"] = float64(rss(d.pid())) / 1e6
	return nil
}

var reloads = []measure{
	{key: "known", unit: "ms"},
	{key: "wait", unit: "ms"},
	{key: "wait-p99", unit: "ms", goal: 5, own: true},
}

// reload changes the name space and sends SIGHUP, five times, while another client
// fetches. It measures the time until the new name is known, the longest latency of
// the other client, and by how much that exceeds its p99 without reloads.
func reload(r *run) error {
	ids, err := r.ids(numClients)
	if err != nil {
		return err
	}
	l, err := r.fetchLoad(1, true, ids...)
	if err != nil {
		return err
	}
	alone := r.measure(l)
	var known, during timing
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("reloaded%d", i))
		// Before the other client runs: writing takes as much CPU time as a reload.
		if err := writePMNS(filepath.Join(r.dir, "pmns"), r.setup.gen, names...); err != nil {
			return err
		}
		stop, warm, other := make(chan struct{}), make(chan struct{}), make(chan timing)
		l.stop, l.warm, l.started = stop, warmUp, func() { close(warm) }
		go func() { other <- l.run() }()
		<-warm
		err := r.with(func(c *pmapi.Client) error {
			begin := time.Now()
			if err := syscall.Kill(r.pid(), syscall.SIGHUP); err != nil {
				return err
			}
			err := r.poll(200*time.Microsecond, func() error {
				_, err := c.Lookup(context.Background(), names[i])
				return err
			})
			known.took = append(known.took, time.Since(begin))
			return err
		})
		close(stop)
		t := <-other
		r.count(t)
		during.took = append(during.took, t.took...)
		if err != nil {
			return err
		}
	}
	slices.Sort(known.took)
	slices.Sort(during.took)
	r.got["known"] = known.at(0.5) / 1e3
	r.got["wait"] = during.at(1) / 1e3
	r.got["wait-p99"] = (during.at(1) - alone.at(0.99)) / 1e3
	return nil
}
