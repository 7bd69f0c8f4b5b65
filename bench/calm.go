package main

import (
	"errors"
	"fmt"
	"time"
)

// longTime is what is measured in each round of group calm, and of each attack.
const longTime = 10 * time.Second

// loggerMetrics are what a usual configuration of pmlogger records of a host: some 300
// metrics. See run.ids.
var loggerMetrics = []string{
	"kernel.all.cpu.*", "kernel.all.load", "kernel.all.intr", "kernel.all.pswitch", "kernel.percpu.cpu.*",
	"mem.util.*", "mem.vmstat.*", "swap.used", "swap.free",
	"disk.dev.read", "disk.dev.write", "disk.dev.read_bytes", "disk.dev.write_bytes", "disk.dev.avactive", "disk.dev.aveq",
	"disk.all.read", "disk.all.write", "network.interface.in.*", "network.interface.out.*",
	"network.tcp.insegs", "network.tcp.outsegs", "network.tcp.currestab", "network.udp.indatagrams",
	"filesys.used", "filesys.free", "vfs.inodes.*", "vfs.files.*", "hinv.ncpu",
}

// calmMeasures are the measures of a scenario. The goal of cpu is for a ratio; those of
// context switches and of memory are for the number here. 0 is no goal.
func calmMeasures(cpu, switches, memory float64) []measure {
	return []measure{
		{key: "cpu+agents", unit: "µs", goal: cpu},
		{key: "voluntary", goal: switches, own: true},
		{key: "involuntary"},
		{key: "p50", unit: "µs"},
		{key: "p99", unit: "µs"},
		{key: "Pss_Anon", unit: "MB", goal: memory, own: true},
		{key: "values"},
	}
}

// calmScenarios measure what a pmcd costs at the rates that people use.
func calmScenarios() []scenario {
	loggers := func(n int, every time.Duration, more ...string) func(r *run) error {
		return calm(pacedParams{Clients: n, Every: every, Logger: true}, append(more, loggerMetrics...)...)
	}
	twenty := loggers(20, time.Second)
	burst := calm(pacedParams{Clients: 20, Every: time.Second, Logger: true, Burst: true}, loggerMetrics...)
	small := calm(pacedParams{Clients: 1000, Every: 10 * time.Second}, "kernel.all.load")
	kernel, secure, own := setup{agents: kernelAgents}, setup{agents: kernelAgents, tls: rsaKey}, setup{agents: ownAgents}
	wakeups := func(goal float64) []measure {
		return []measure{{key: "wake-ups", unit: "1/s", goal: goal, own: true}, {key: "cpu", unit: "µs/s"}, {key: "processes"}}
	}
	all := []scenario{
		{name: "calm-20", about: "20 loggers, each second", setup: kernel, shows: calmMeasures(0.5, 3, 6), run: twenty},
		{name: "calm-1", about: "1 logger, each second", setup: kernel, shows: calmMeasures(0.6, 3.5, 0), run: loggers(1, time.Second)},
		{name: "calm-burst", about: "20 loggers, each second, all at the same moment", setup: kernel, shows: calmMeasures(0.5, 0, 0), run: burst},
		{name: "calm-pipes", about: "20 loggers, each second, PMDAs on pipes in both", shows: calmMeasures(0.9, 0, 0), run: loggers(20, time.Second, "simple.*", "sample.long.*")},
		{name: "calm-200", about: "200 loggers, every 10 s", setup: kernel, shows: calmMeasures(0.6, 0, 0), run: loggers(200, 10*time.Second)},
		{name: "calm-1000", about: "1,000 clients, kernel.all.load every 10 s", setup: kernel, shows: calmMeasures(0.6, 0, 0), run: small},
		{name: "calm-tls", about: "20 loggers, each second, TLS", setup: secure, shows: calmMeasures(0.8, 0, 0), run: twenty},
		{name: "calm-own", about: "20 loggers, each second, each daemon as installed, its own configuration", setup: own, shows: []measure{
			{key: "Pss_Anon", unit: "MB", goal: 1.5}, {key: "Pss_Anon daemon", unit: "MB"}, {key: "processes"}, {key: "cpu+agents", unit: "µs"}}, rounds: 2, run: twenty},
		{name: "calm-idle", about: "no client", setup: kernel, shows: wakeups(1), rounds: 2, run: idle},
		{name: "calm-idle-own", about: "no client, each daemon as installed", setup: own, shows: wakeups(0), rounds: 2, run: idle},
	}
	for i := range all {
		all[i].calm, all[i].fresh = true, true
		if all[i].rounds == 0 {
			all[i].rounds = 3
		}
	}
	return all
}

// calm measures clients that fetch at a fixed rate, in a process of their own.
func calm(p pacedParams, names ...string) func(r *run) error {
	return func(r *run) error {
		p := p
		var err error
		if p.IDs, err = r.ids(names...); err != nil {
			return err
		}
		p.Network, p.Addr, p.TLS = "tcp4", r.addr(), r.setup.tls != ""
		c, err := spawn("paced", p)
		if err != nil {
			return err
		}
		defer c.stop()
		var now pacedReport
		if err := inOrder(
			func() error { return c.next(&struct{}{}) },
			func() error { time.Sleep(r.time / 5); return nil },
			func() error { return c.ask("measure", &struct{}{}) },
		); err != nil {
			return err
		}
		all, voluntary, involuntary := r.use()
		if err := c.ask("report", &now); err != nil {
			return err
		}
		r.memory()
		w := now.Watches[fetchTime]
		if w.Failed > 0 {
			r.count(timing{errs: w.Failed, err: errors.New(w.Error)})
		}
		if w.Fetches == 0 {
			return fmt.Errorf("no reply in %v", r.time)
		}
		n := float64(w.Fetches)
		r.got["cpu+agents"] = all.Seconds() * 1e6 / n
		r.got["voluntary"], r.got["involuntary"] = float64(voluntary)/n, float64(involuntary)/n
		r.got["p50"], r.got["p99"] = w.P50*1e3, w.P99*1e3
		r.got["values"], r.got["fetches"] = float64(now.Values), n
		return nil
	}
}

// use returns what the daemon and all that it has started use while a round is measured.
func (r *run) use() (cpu time.Duration, voluntary, involuntary int64) {
	end := time.Now().Add(r.time)
	all := treeOf(r.pid())
	before := all.usage()
	time.Sleep(time.Until(end))
	_, cpu, voluntary, involuntary = all.usage().since(before)
	return cpu, voluntary, involuntary
}

// memory keeps the memory of their own of the daemon and of all its processes.
func (r *run) memory() {
	all := treeOf(r.pid())
	r.got["Pss_Anon daemon"], r.got["Pss_Anon"] = float64(memoryOf(r.pid(), "Pss_Anon"))/1e6, float64(all.memory("Pss_Anon"))/1e6
	r.got["processes"] = float64(len(all.pids()))
}

// idle measures a daemon without clients. The number of its wake-ups is that of voluntary
// context switches.
func idle(r *run) error {
	// Connections without a request for 15 seconds go back to the acceptor, so those with which the
	// bench has seen that the daemon is ready wake it once more.
	time.Sleep(max(20*time.Second, 2*r.time))
	cpu, voluntary, _ := r.use()
	r.memory()
	r.got["wake-ups"], r.got["cpu"] = float64(voluntary)/r.time.Seconds(), cpu.Seconds()*1e6/r.time.Seconds()
	return nil
}

// inOrder calls functions until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
