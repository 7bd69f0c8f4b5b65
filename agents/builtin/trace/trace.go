// Package trace is the agent for what applications measure themselves (domain 10). They
// send the times of transactions, points that they have passed, observations and counters
// by TCP, with PCP's libpcp_trace, pmtrace(1) or package agents/trace. The agent serves
// counts, rates and times as the metrics of PCP's pmdatrace:
//
//	trace.transact   transactions: count, rate, and times
//	trace.point      points: count and rate
//	trace.observe    observations: count, rate, and last value
//	trace.counter    counters: the same
//	trace.control    options of the agent
//
// The instances are the tags that applications send.
//
// The agent listens at port 4323 of all addresses. Only clients on this host may connect,
// unless Options.Access says otherwise.
//
// Comments that start with "C differs" say what pmdatrace does otherwise.
package trace

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/tracepdu"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// Domain is the domain of the agent.
const Domain = 10

// Options configure an agent. The zero value is that of pmdatrace without options.
type Options struct {
	// Port is the port for clients; 0 is that in the environment variable
	// PCP_TRACE_PORT, by default 4323. Listener, if it is not nil, takes the place of a
	// listener at that port.
	Port     int
	Listener *net.TCPListener

	// Access has rules for hosts, "allow:HOST:MAX" or "disallow:HOST". HOST is as in
	// pmcd.conf. MAX limits the connections of that host; 0 is no limit. Hosts without a
	// rule may connect. If there are no rules, only clients on this host may.
	Access []string

	// Period, whole seconds, is the time over which rates and times of transactions are
	// computed; 0 is a minute. They are computed anew Buckets times in a Period; 0 is 5.
	Period  time.Duration
	Buckets int

	// The units of trace.observe.value and trace.counter.value.
	ObserveUnits, CounterUnits pdu.Units

	// Debug are names of debug options. "appl0" logs connections and what clients send.
	Debug []string

	// Log gets warnings about clients; nil is slog.Default.
	Log *slog.Logger

	// For tests; zero values are the defaults.
	now    func() time.Time
	max    int // clients
	memory int // bytes
}

const (
	maxClients = 2048
	maxMemory  = 32 << 20
)

// New returns the agent with default options. It listens until it is closed.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

//go:embed help.txt
var help string

// A trace is the agent.
type trace struct {
	options Options
	totals  *totals
	server  server
	views   [tracepdu.Counter + 1]view
	debug   string
}

// Open returns the agent. It listens until it is closed.
func Open(domain int, o Options) (agents.Agent, error) {
	t, err := newTrace(domain, o)
	if err != nil {
		return nil, err
	}
	return t.open(domain)
}

// newTrace returns a trace that does not listen.
func newTrace(domain int, o Options) (*trace, error) {
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "trace", "domain", domain)
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	var rules []accessRule
	for _, s := range o.Access {
		r, err := parseAccess(s)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	p, err := newPeers(rules, resolver{})
	if err != nil {
		return nil, err
	}
	t := &trace{options: o}
	if t.options.now == nil {
		t.options.now = time.Now
	}
	t.totals = newTotals(o.Period, o.Buckets, cmp.Or(o.memory, maxMemory), t.options.now)
	t.server.log, t.server.peers, t.server.add = o.Log, p, t.totals.add
	t.server.max, t.server.files = limits()
	if o.max != 0 {
		t.server.max = o.max
	}
	t.setDebug(o.Debug)
	return t, nil
}

// open returns the agent and starts to listen.
func (t *trace) open(domain int) (agents.Agent, error) {
	a, err := pmda.New(t.config(domain))
	if err != nil {
		return nil, err
	}
	if t.options.Listener != nil {
		t.server.listener = t.options.Listener
	} else if t.server.listener, err = net.Listen("tcp", fmt.Sprintf(":%d", t.options.Port)); err != nil {
		return nil, fmt.Errorf("no port for clients: %w", err)
	}
	t.server.start()
	return a, nil
}

// limits returns the most clients, and the descriptor from which on connections are
// refused. The agent may be in pmcd's process, which needs descriptors for other things.
func limits() (clients, files int) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return maxClients / 8, maxClients
	}
	limit := min(l.Cur, 1<<20)
	return int(min(maxClients, limit/2)), int(limit - limit/8)
}

// row is a metrics.Row.
type row metrics.Row

const (
	u32    = pdu.MetricU32
	u64    = pdu.MetricU64
	float  = pdu.MetricFloat
	double = pdu.MetricDouble

	counter  = pdu.SemCounter
	instant  = pdu.SemInstant
	discrete = pdu.SemDiscrete
)

func (t *trace) config(domain int) pmda.Config {
	count := pdu.NewUnits(0, 0, 1, 0, 0, 0)
	perSecond := pdu.NewUnits(0, -1, 1, 0, pdu.TimeSec, 0)
	perCount := pdu.NewUnits(0, 1, -1, 0, pdu.TimeSec, 0)
	seconds := pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0)

	countOf := pmda.FromData(func(v *pmda.Value, f *figures) { v.SetUint(f.count) })
	lastOf := pmda.FromData(func(v *pmda.Value, f *figures) { v.SetFloat(f.last) })
	// A tag has these only if there were values in the period.
	recent := func(get func(f *figures) float64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, f *figures) {
			if f.n > 0 {
				v.SetFloat(get(f))
			}
		})
	}
	rateOf := recent(t.totals.rate)
	number := func(n int) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			v.SetInt(int64(n))
			return nil
		}
	}

	c := pmda.Config{Name: "trace", Domain: domain, Help: help, Store: t.store, Close: t.close, Log: t.options.Log}
	add := func(kind tracepdu.Kind, serial int, rows []row) {
		source := &pmda.Source{Read: func(context.Context, *pmda.Request) error {
			t.totals.read(kind, &t.views[kind])
			return nil
		}}
		indom := &pmda.InDom{Serial: serial, Insts: &t.views[kind], Source: source}
		c.Metrics = append(c.Metrics, metrics.Table(pmda.Metric{InDom: indom, Source: source}, rows)...)
	}
	add(tracepdu.Transaction, 0, []row{
		{0, 0, "trace.transact.count", u64, counter, count, countOf},
		{0, 1, "trace.transact.rate", float, instant, perSecond, rateOf},
		{0, 2, "trace.transact.ave_time", float, instant, perCount, recent(func(f *figures) float64 { return f.periodSum / float64(f.n) })},
		{0, 3, "trace.transact.min_time", float, instant, seconds, recent(func(f *figures) float64 { return f.min })},
		{0, 4, "trace.transact.max_time", float, instant, seconds, recent(func(f *figures) float64 { return f.max })},
		{0, 5, "trace.transact.total_time", double, counter, seconds, pmda.FromData(func(v *pmda.Value, f *figures) { v.SetFloat(f.sum) })},
	})
	add(tracepdu.Point, 1, []row{
		{0, 6, "trace.point.count", u64, counter, count, countOf},
		{0, 7, "trace.point.rate", float, instant, perSecond, rateOf},
	})
	add(tracepdu.Observation, 2, []row{
		{0, 8, "trace.observe.count", u64, counter, count, countOf},
		{0, 9, "trace.observe.rate", float, instant, perSecond, rateOf},
		{0, 10, "trace.observe.value", double, instant, t.options.ObserveUnits, lastOf},
	})
	add(tracepdu.Counter, 3, []row{
		{0, 17, "trace.counter.count", u64, counter, count, countOf},
		{0, 18, "trace.counter.rate", float, instant, perSecond, rateOf},
		{0, 19, "trace.counter.value", double, counter, t.options.CounterUnits, lastOf},
	})
	c.Metrics = append(c.Metrics, metrics.Table(pmda.Metric{}, []row{
		{0, 11, "trace.control.period", u32, discrete, seconds, number(int(t.options.Period / time.Second))},
		{0, 12, "trace.control.interval", u32, discrete, seconds, number(int(t.totals.interval / time.Second))},
		{0, 13, "trace.control.buckets", u32, discrete, 0, number(t.options.Buckets)},
		{0, 14, "trace.control.port", u32, discrete, 0, func(_ context.Context, v *pmda.Value) error {
			v.SetInt(int64(t.server.listener.Addr().(*net.TCPAddr).Port))
			return nil
		}},
		{0, itemReset, "trace.control.reset", u32, discrete, 0, number(1)},
		// C differs: 6.0 has a number here.
		{0, itemDebug, "trace.control.debug", pdu.MetricString, discrete, 0, func(_ context.Context, v *pmda.Value) error {
			v.SetString(t.debug)
			return nil
		}},
	})...)
	return c
}

// Items of metrics that clients can store.
const (
	itemReset = 15
	itemDebug = 16
)

func (t *trace) store(_ context.Context, _ *pmda.Request, sets []pmda.Stored) error {
	for _, s := range sets {
		switch {
		case s.PMID.Cluster() != 0 || len(s.Values) == 0:
			return pdu.ErrnoPMID
		case s.PMID.Item() == itemReset:
			t.totals.reset()
		case s.PMID.Item() == itemDebug:
			text, err := s.Values[0].AsString()
			if _, numErr := s.Values[0].AsFloat(); err != nil || numErr == nil {
				return pdu.ErrnoBadStore
			}
			names, err := debugopt.Parse(text)
			if err != nil {
				return pdu.ErrnoConv
			}
			t.setDebug(names)
		default:
			return pdu.ErrnoPMID
		}
	}
	return nil
}

func (t *trace) setDebug(names []string) {
	t.debug = strings.Join(names, ",")
	t.server.debug.Store(slices.Contains(names, "appl0"))
}

// close closes the port and all connections. Clients connect again when the agent is back.
func (t *trace) close() error {
	t.server.close()
	return nil
}
