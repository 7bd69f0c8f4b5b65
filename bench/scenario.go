package main

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A scenario is one kind of work that is measured.
type scenario struct {
	name   string
	about  string
	setup  setup
	shows  []measure
	rounds int  // if -rounds is 0; 0 is usualRounds
	fresh  bool // has a daemon of its own, because it changes the daemon's state
	starts bool // starts its daemons itself
	calm   bool // is of the group calm
	host   bool // is of the group hosts
	run    func(r *run) error
}

// A measure is one number of a scenario.
type measure struct {
	key    string // in run.got
	unit   string
	higher bool    // is better
	goal   float64 // of the ratio here:C at most, or at least if higher; 0 is none
	own    bool    // the goal is for the number here and not for the ratio
	blocks bool    // C pmcd serves no client for most of the time: a ratio means nothing
}

// usual returns the measures of most scenarios. CPU is the time of the daemon and
// its helper processes for each operation.
func usual(p50, cpu float64) []measure {
	return []measure{
		{key: "p50", unit: "µs", goal: p50},
		{key: "p99", unit: "µs"},
		{key: "cpu", unit: "µs", goal: cpu},
	}
}

func many(rate, p99 float64) []measure {
	return []measure{
		{key: "rate", unit: "1/s", higher: true, goal: rate},
		{key: "p99", unit: "µs", goal: p99},
		{key: "cpu", unit: "µs", goal: 0.9},
	}
}

func rate(goal float64) []measure {
	return []measure{
		{key: "rate", unit: "1/s", higher: true, goal: goal},
		{key: "p50", unit: "µs"},
		{key: "cpu", unit: "µs"},
	}
}

// allOut is for fetches of kernel metrics: the CPU time of the agent counts, too.
var allOut = []measure{{key: "p50", unit: "µs", goal: 1. / 3}, {key: "cpu+agents", unit: "µs", goal: 1. / 3}, {key: "values"}}

// victim has the measures of a client while another one misbehaves.
var victim = []measure{
	{key: "rate", unit: "1/s", higher: true, blocks: true},
	{key: "p99", unit: "µs"},
	{key: "p99/alone", goal: 2, own: true},
	{key: "max", unit: "µs"},
	{key: "RSS growth", unit: "KiB"},
}

// manyNames is the size of a large name space.
const manyNames = 100_000

// scenarios are those of the group calm, those with closed loops, and those of the group hosts.
var scenarios = slices.Concat(calmScenarios(), closedScenarios(), hostScenarios())

func closedScenarios() []scenario {
	gen := setup{gen: manyNames}
	s := []scenario{
		{name: "fetch-one", about: "a metric of pmcd's own", shows: usual(0.9, 1), run: fetch(1, 0, numClients)},
		{name: "fetch-agent", about: "a metric of an agent", shows: usual(0.9, 0.9), run: fetch(1, 0, sampleOne)},
		{name: "fetch-agents", about: "20 metrics of 3 agents", shows: usual(0.75, 0.9), run: fetch(1, 0, benchMetrics...)},
		{name: "big-1000", about: "1,000 metrics of 3 agents", shows: usual(0.75, 0.4), run: fetch(1, 1000, benchMetrics...)},
		{name: "big-10000", about: "10,000 metrics of 3 agents", shows: usual(0.75, 0.4), run: fetch(1, 10000, benchMetrics...)},
		{name: "fetch-one-64", about: "64 clients, a metric of pmcd's own", shows: many(1.2, 0), run: fetch(64, 0, numClients)},
		{name: "fetch-many", about: "64 clients, 20 metrics of 3 agents", shows: many(1.3, 0.7), run: fetch(64, 0, benchMetrics...)},
		{name: "desc-pmcd", about: "a descriptor of pmcd's own", shows: usual(0.9, 1), run: desc(numClients)},
		{name: "desc-agent", about: "a descriptor of an agent", shows: usual(0.9, 0.9), run: desc(sampleOne)},
		{name: "descs-20", about: "20 descriptors of 3 agents", shows: rate(2), run: descs(benchMetrics...)},
		{name: "name", about: "name to PMID", shows: usual(0.9, 1), run: names(1)},
		{name: "names-100", about: "100 names to PMIDs", shows: rate(2.5), run: names(100)},
		{name: "pmid", about: "PMID to names", shows: usual(0.9, 1), run: lookups(nameOf)},
		{name: "children", about: "the names below one", shows: usual(0.9, 1), run: lookup(&pdu.PMNSChild{Subtype: 1, Name: "sample.long"})},
		{name: "traverse", about: "all names", shows: rate(40), run: lookup(&pdu.PMNSTraverse{})},
		{name: "connect", about: "connect, greet, close", shows: rate(0.9), run: connects(1, 32)},
		{name: "connect-16", about: "16 clients, the same", shows: rate(1.5), run: connects(16, 32)},
		{name: "storm-64", about: "64 connect at once, until all are served", shows: connectStormMeasures(30), run: connectStorm(64)},
		{name: "storm-1000", about: "1,000 connect at once", shows: connectStormMeasures(0), rounds: 2, run: connectStorm(1000)},
		{name: "reload", about: "SIGHUP until a new name is known; the longest wait of another client meanwhile", shows: reloads, fresh: true, run: reload},

		{name: "name-100k", about: "name to PMID, 100,000 names", setup: gen, shows: usual(0.9, 1), run: names(1)},
		{name: "names-100-100k", about: "100 names to PMIDs, 100,000 names", setup: gen, shows: rate(2.5), run: names(100)},
		{name: "pmid-100k", about: "PMID to names, 100,000 names", setup: gen, shows: usual(0.9, 1), run: lookups(nameOf)},
		{name: "children-100k", about: "the names below one, 100,000 names", setup: gen, shows: usual(0.9, 1), run: lookup(&pdu.PMNSChild{Subtype: 1, Name: "gen.g50"})},
		{name: "traverse-100k", about: "100,000 names", setup: gen, shows: rate(100), run: lookup(&pdu.PMNSTraverse{Name: "gen"})},
		{name: "reload-100k", about: "SIGHUP, 100,000 names", setup: gen, shows: reloads, fresh: true, run: reload},
	}
	groups := []string{"kernel.all.load", "kernel.percpu.cpu.*", "mem.util.*", "disk.dev.*", "network.interface.*"}
	for _, k := range []struct {
		name, about string
		fetch       []string
	}{
		{"kernel-all", "five groups of kernel metrics in one fetch", groups},
		{"kernel-load", groups[0], groups[:1]},
		{"kernel-cpus", groups[1], groups[1:2]},
		{"kernel-mem", groups[2], groups[2:3]},
		{"kernel-disk", groups[3], groups[3:4]},
		{"kernel-net", groups[4], groups[4:]},
	} {
		s = append(s, scenario{name: k.name, about: k.about + ", the agent built in here",
			setup: setup{agents: kernelAgents}, shows: allOut, run: fetch(1, 0, k.fetch...)})
	}
	s = append(s, secureScenarios()...)
	slow, dead := setup{delay: time.Second}, setup{delay: never}
	return append(s, []scenario{
		{name: "slow-agent", about: "a client beside one that waits for an agent that takes 1 s", setup: slow, shows: victim, rounds: 1, fresh: true, run: contention(3*time.Second, waiting)},
		{name: "dead-agent", about: "... for an agent that never answers", setup: dead, shows: victim, rounds: 1, fresh: true, run: contention(7*time.Second, waiting)},
		{name: "half-pdu", about: "... that has sent half a PDU", shows: victim, rounds: 1, fresh: true, run: contention(6*time.Second, halfPDU)},
		{name: "flood", about: "... that sends fetches and reads nothing", shows: victim, rounds: 1, fresh: true, run: contention(5*time.Second, floodFetch)},
		{name: "flood-traverse", about: "... that asks for all names and reads nothing", shows: victim, rounds: 1, fresh: true, run: contention(5*time.Second, floodTraverse)},
		{name: "clients", about: "idle clients: a fetch beside them, and memory", shows: idleMeasures, rounds: 3, fresh: true, run: idleClients},
		{name: "rss", about: "memory without clients, after some fetches", shows: []measure{
			{key: "RSS", unit: "MB", goal: 20, own: true}, {key: "RSS helpers", unit: "MB"}}, rounds: 3, fresh: true, run: memory},
		{name: "start", about: "exec until all agents have values", shows: startings(0.6), starts: true, run: starting},
		{name: "start-stock", about: "the same with the installed pmcd.conf", setup: setup{agents: stockAgents}, shows: startings(0.6), starts: true, run: starting},
		{name: "start-100k", about: "the same, 100,000 names", setup: gen, shows: startings(0.5), starts: true, run: starting},
	}...)
}

// usualRounds and usualTime are for scenarios with closed loops.
const (
	usualRounds = 8
	usualTime   = 300 * time.Millisecond
)

// secureMeasures are the measures of TLS connections. Goal is for their rate. The client's
// part of the work is the same with both daemons: "client" is its CPU time, and "p50-client"
// is p50 without it, if there is one client.
func secureMeasures(goal float64) []measure {
	return []measure{
		{key: "rate", unit: "1/s", higher: true, goal: goal},
		{key: "p50", unit: "µs"},
		{key: "p50-client", unit: "µs"},
		{key: "cpu", unit: "µs"},
		{key: "client", unit: "µs"},
	}
}

func secureScenarios() []scenario {
	rsa, ecdsa := setup{tls: rsaKey}, setup{tls: ecdsaKey}
	memory := []measure{
		{key: "KiB/client", unit: "KiB", goal: 24, own: true},
		{key: "PSS/client", unit: "KiB"},
		{key: "anonymous/client", unit: "KiB"},
	}
	storm := []measure{{key: "rate", unit: "1/s", higher: true, goal: 1}, {key: "all", unit: "ms"}, {key: "failed"}}
	fetched := append(usual(1, 0), measure{key: "client", unit: "µs"})
	own := []string{"pmcd.pdu_in.*", "pmcd.pdu_out.*", "pmcd.feature.*", "pmcd.cputime.*", "pmcd.buf.*", "pmcd.numagents", numClients}
	return []scenario{
		{name: "tls-fetch-one", about: "TLS, a metric of pmcd's own", setup: rsa, shows: fetched, run: fetch(1, 0, numClients)},
		{name: "tls-fetch-64", about: "TLS, 64 metrics of pmcd's own", setup: rsa, shows: fetched, run: fetch(1, 64, own...)},
		{name: "tls-connect-rsa", about: "TLS with " + rsaKey + ", one after another: connect, a request, close", setup: rsa, shows: secureMeasures(0.6), run: connects(1, 1)},
		{name: "tls-connect-4", about: "4 clients, the same; C pmcd serves as many", setup: rsa, shows: many(0, 0)[:2], run: connects(4, 1)},
		{name: "tls-connect-64", about: "64 clients, the same", setup: rsa, shows: append(many(1, 0)[:2], measure{key: "cpu", unit: "µs"}), rounds: 3, run: connects(64, 1)},
		{name: "tls-storm-64-rsa", about: "64 connect at once, the same", setup: rsa, shows: storm, run: connectStorm(64)},
		{name: "tls-connect-ecdsa", about: "TLS with " + ecdsaKey + ", one after another", setup: ecdsa, shows: secureMeasures(0.9), run: connects(1, 1)},
		{name: "tls-storm-64", about: "64 connect at once, the same", setup: ecdsa, shows: storm, run: connectStorm(64)},
		{name: "tls-clients", about: "memory of 1,000 idle TLS clients", setup: ecdsa, shows: memory, rounds: 3, fresh: true, run: idleSecure(false)},
		{name: "tls-clients-cert", about: "the same, each with a certificate", setup: ecdsa, shows: memory, rounds: 3, fresh: true, run: idleSecure(true)},
	}
}

// A run is one round of a scenario with one daemon.
type run struct {
	*options
	*daemon // nil if the scenario starts its own
	setup   setup
	program string
	ours    bool
	time    time.Duration // measured
	cfg     *tls.Config   // of clients; nil is no TLS

	got  map[string]float64
	errs int   // operations that failed
	err  error // the first
}

// newRun returns a run with a daemon that does not run yet.
func (o *options) newRun(s setup, side int) *run {
	r := &run{options: o, setup: s, program: [sides]string{o.c, o.pmcd}[side], ours: side == ours, time: cmp.Or(o.time, usualTime), got: map[string]float64{}}
	if s.tls != "" {
		r.cfg = clientTLS()
	}
	return r
}

// start starts the daemon and waits until it is ready.
func (r *run) start() (*daemon, error) {
	d, err := start(r.base, r.program, r.setup, r.ours, r.args...)
	if err != nil {
		return nil, err
	}
	if _, err = d.ready(r.setup.metrics()...); err != nil {
		err = fmt.Errorf("%w: %s", err, d.tail())
		d.stop()
		return nil, err
	}
	return d, nil
}

// dial connects, with TLS if the daemon has it.
func (r *run) dial() (*client, error) { return dialBlocking(r.port, r.cfg) }

// once calls fn with a connection of its own. See with for requests that are not measured.
func (r *run) once(fn func(c *client) error) error {
	c, err := r.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

// measure runs a load and keeps its rate, its latencies, and the CPU time of the
// daemon and of the clients.
func (r *run) measure(l load) timing {
	if l.time == 0 {
		l.time = r.time
	}
	l.warm = warmUp
	below := treeOf(r.pid())
	var before usage
	var own time.Duration
	l.started = func() { before, own = below.usage(), ownCPU() }
	t := l.run()
	daemon, all, _, _ := below.usage().since(before)
	own = ownCPU() - own
	r.count(t)
	if n := float64(len(t.took)); n > 0 {
		r.got["rate"] = t.rate()
		r.got["p50"], r.got["p99"], r.got["max"] = t.at(0.5), t.at(0.99), t.at(1)
		for key, d := range map[string]time.Duration{"cpu": daemon, "cpu+agents": all, "client": own} {
			r.got[key] = d.Seconds() * 1e6 / n
		}
	}
	return t
}

// count keeps the errors.
func (r *run) count(t timing) {
	r.errs += t.errs
	if r.err == nil {
		r.err = t.err
	}
}
