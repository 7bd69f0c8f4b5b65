package pmcd

import (
	"context"

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
func (a *Agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	f := &a.fetch
	f.begin(r, w)
	defer f.end()
	for _, id := range r.PMIDs {
		m := a.metric(id)
		if m == nil {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		m.fetch(f)
	}
	return nil
}

// A fetch is one call of Fetch. It reads data that several metrics need only once,
// so their values are consistent.
type fetch struct {
	a       *Agent
	w       *pdu.ResultWriter
	client  int32
	profile *pdu.Profile

	fetched struct{ status, agents, clients, loggers, pmies, cpu, perPDU, buffers bool }

	statusNow  Status
	agentsNow  []AgentInfo // by domain
	clientsNow []ClientInfo
	loggersNow []logger
	pmiesNow   []pmie // by id
	cpuNow     cpuTime
	perPDUNow  float64
	buffersNow [numBuffers]int32
}

func (f *fetch) begin(r *agents.FetchRequest, w *pdu.ResultWriter) {
	f.w, f.client, f.profile = w, r.Origin.Client, r.Profile
}

// end drops references to data of the caller. Memory is kept for the next fetch,
// except large slices.
func (f *fetch) end() {
	f.w, f.profile = nil, nil
	f.statusNow = Status{}
	f.agentsNow = emptied(f.agentsNow)
	f.clientsNow = emptied(f.clientsNow)
	f.loggersNow = emptied(f.loggersNow)
	f.pmiesNow = emptied(f.pmiesNow)
	f.fetched = struct{ status, agents, clients, loggers, pmies, cpu, perPDU, buffers bool }{}
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

// each returns the fetchFunc of a metric with instances. put appends the value of
// one instance.
func each[T any](indom int, all func(*fetch) []T, id func(*T) int32, put func(*pdu.ResultWriter, int32, *T)) fetchFunc {
	return func(f *fetch) {
		p := f.profile.For(pdu.NewInDom(f.a.domain, indom))
		if p.Exclude && len(p.Insts) == 0 {
			return
		}
		list := all(f)
		for i := range list {
			if inst := id(&list[i]); p.Includes(inst) {
				put(f.w, inst, &list[i])
			}
		}
	}
}

// boolWord returns 1 for true and 0 for false.
func boolWord(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
