package pmcd

import (
	"cmp"
	"context"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A metric is one row of the tables. It defines all of a metric except its help
// text.
type metric struct {
	item  int
	name  string
	typ   pdu.MetricType
	indom int // serial; 0 is none
	sem   pdu.Sem
	units pdu.Units
	fetch fetchFunc
	store storeFunc // nil if it cannot be stored
}

// A fetchFunc appends the values of a metric to f.w, which has begun the metric's
// value set.
type fetchFunc func(f *fetch)

// Short names for the tables.
const (
	i32, u32, u64              = pdu.Metric32, pdu.MetricU32, pdu.MetricU64
	float, doubl, str          = pdu.MetricFloat, pdu.MetricDouble, pdu.MetricString
	counter, instant, discrete = pdu.SemCounter, pdu.SemInstant, pdu.SemDiscrete

	none             = pdu.Units(0)
	count            = pdu.Count
	kbyte, msec, sec = pdu.Kbyte, pdu.Msec, pdu.Sec
)

var (
	perSec = pdu.NewUnits(0, -1, 1, 0, pdu.TimeSec, 0)
	perPDU = pdu.NewUnits(0, 1, -1, 0, pdu.TimeUsec, 0)

	// By mistake the unit of this size is a time in PCP 7.2.1. Clients expect it.
	pduSize = pdu.NewUnits(0, 1, 0, 0, pdu.TimeNsec, 0)
)

// Serial numbers of the instance domains.
const (
	indomLoggers = 1 + iota
	indomRegisters
	indomAgents
	indomPmies
	indomBuffers
	indomClients
)

// clusters has all metrics, by cluster and item. An element without a name is not a
// metric.
var clusters = [...][]metric{
	byItem(controlMetrics),
	byItem(pduMetrics("pmcd.pdu_in.", received)),
	byItem(pduMetrics("pmcd.pdu_out.", sent)),
	byItem(loggerMetrics),
	byItem(agentMetrics),
	byItem(pmieMetrics),
	byItem(clientMetrics),
	byItem(cpuMetrics),
	byItem(featureMetrics),
}

func byItem(rows []metric) []metric {
	var c []metric
	for _, m := range rows {
		for len(c) <= m.item {
			c = append(c, metric{})
		}
		c[m.item] = m
	}
	return c
}

// Fetch implements [agents.Agent].
func (a *Agent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	f := a.begin(ctx, r, w)
	defer f.end()
	for _, id := range r.PMIDs {
		if w.Err() != nil {
			return nil // too large; w has the error
		}
		if f.stopped() || ctx.Err() != nil {
			break
		}
		m := a.metric(id)
		if m == nil {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		m.fetch(f)
	}
	return cmp.Or(f.err, ctx.Err())
}

// A fetch is one call of Fetch. It copies data that several metrics need only once,
// so their values are consistent. Lists have only the instances that the client
// requests.
type fetch struct {
	a       *Agent
	ctx     context.Context
	w       *pdu.ResultWriter
	client  int32
	profile *pdu.Profile
	pace    pace
	err     error // why the fetch ends early

	fetched struct{ status, agents, clients, loggers, pmies, cpu, perPDU, buffers bool }

	statusNow  Status
	agentsNow  []AgentInfo // by domain
	clientsNow []ClientInfo
	loggersNow []logger
	pmiesNow   []pmie // by id
	cpuNow     cpuTime
	perPDUNow  float64
	buffersNow [numBuffers]int32

	rusage syscall.Rusage // of cpu
	fdDir  syscall.Stat_t // of openFDs
}

// maxFree is how many fetches are kept for reuse.
const maxFree = 8

func (a *Agent) begin(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) *fetch {
	a.mu.Lock()
	defer a.mu.Unlock()
	var f *fetch
	if last := len(a.free) - 1; last >= 0 {
		f = a.free[last]
		a.free = a.free[:last]
	} else {
		f = &fetch{a: a}
	}
	f.ctx, f.w, f.client, f.profile = ctx, w, r.Origin.Client, r.Profile
	f.pace, f.err = pace{ctx: ctx}, nil
	return f
}

// end keeps the memory of f for later fetches, except large slices.
func (f *fetch) end() {
	f.ctx, f.w, f.profile, f.pace = nil, nil, nil, pace{}
	f.statusNow = Status{}
	f.agentsNow = emptied(f.agentsNow)
	f.clientsNow = emptied(f.clientsNow)
	f.loggersNow = emptied(f.loggersNow)
	f.pmiesNow = emptied(f.pmiesNow)
	f.fetched = struct{ status, agents, clients, loggers, pmies, cpu, perPDU, buffers bool }{}
	a := f.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.free) < maxFree {
		a.free = append(a.free, f)
	}
}

func emptied[T any](s []T) []T {
	if cap(s) > 1000 {
		return nil
	}
	clear(s)
	return s[:0]
}

// markFetched sets *fetched, and reports whether it was false before.
func markFetched(fetched *bool) bool {
	was := *fetched
	*fetched = true
	return !was
}

func (f *fetch) status() *Status {
	if markFetched(&f.fetched.status) {
		f.a.host.Status(&f.statusNow)
	}
	return &f.statusNow
}

// word returns the fetchFunc of a metric of a 32-bit type without instances.
func word(get func(*fetch) uint32) fetchFunc {
	return func(f *fetch) { f.w.Word(pdu.NoInst, get(f)) }
}

// text returns the fetchFunc of a metric of type STRING without instances.
func text(get func(*fetch) string) fetchFunc {
	return func(f *fetch) { f.w.String(pdu.NoInst, get(f)) }
}

// each returns the fetchFunc of a metric with instances. list returns those that the
// client requests, and put appends the value of one of them.
func each[T any](list func(*fetch) []T, id func(*T) int32, put func(*pdu.ResultWriter, int32, *T)) fetchFunc {
	return func(f *fetch) {
		insts := list(f)
		for i := range insts {
			if f.stopped() {
				return
			}
			put(f.w, id(&insts[i]), &insts[i])
		}
	}
}

// requested returns the instances of an instance domain that the client requests.
// It reports false if there are none.
func (f *fetch) requested(indom int) (pdu.InDomProfile, bool) {
	p := f.profile.For(pdu.NewInDom(f.a.domain, indom))
	return p, !p.Exclude || len(p.Insts) > 0
}

// stopped is called for each metric and instance. It reports whether the fetch has to end.
func (f *fetch) stopped() bool {
	if f.err == nil {
		f.err = f.pace.step()
	}
	return f.err != nil
}

// A pace asks for the error of the context for every 64th item of long loops.
type pace struct {
	ctx   context.Context
	items int
}

// step is called for each item. It returns the error of Err of the context.
func (p *pace) step() error {
	if p.items++; p.items%64 != 0 {
		return nil
	}
	return p.ctx.Err()
}

// boolWord returns 1 for true and 0 for false.
func boolWord(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
