package pmda

import (
	"context"
	"log/slog"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Config describes an agent. Only Domain and Metrics are required. The agent
// keeps using what the Config points to. Do not change it after New, except where
// the documentation of a field or type allows that.
type Config struct {
	// Name is the name of the agent, such as "simple". It is used in log lines.
	// If the domain has no labels, it has the label "agent" with this value.
	Name string

	// Domain is the domain number of all metrics and instance domains, 1 to 510.
	Domain int

	Metrics  []Metric
	Clusters []Cluster // defaults for the metrics of a cluster
	InDoms   []*InDom  // instance domains without a metric
	Subtrees []*Subtree

	// Help has help texts in the format of newhelp(1); see [ParseHelp]. They are
	// used for metrics and instance domains that have no texts of their own.
	Help string

	Labels Labels // of the domain

	// Check, if not nil, is called before each request (pmdaSetCheckCallBack(3)).
	// If it returns an error, the request fails with it. Done, if not nil, is
	// called after each request for which Check succeeded
	// (pmdaSetDoneCallBack(3)).
	Check func(ctx context.Context, r *Request) error
	Done  func(r *Request)

	// BeforeFetch, if not nil, is called once for each fetch, before Sources are
	// read. If it returns an error, the whole fetch fails. BeforeFetch must not
	// retain ids.
	BeforeFetch func(ctx context.Context, r *Request, ids []pdu.PMID) error

	// Store, if not nil, is called for each store with all value sets of the
	// request. The Store functions of metrics are not called then.
	Store func(ctx context.Context, r *Request, sets []Stored) error

	// WantAttrs makes pmcd send the attributes of clients, which costs one PDU or
	// more for each connection. EndClient, if not nil, is called after a client has
	// disconnected. With either, the agent keeps a [Client] for each client of pmcd
	// from its first request on; see [Request.Client].
	WantAttrs bool
	EndClient func(c *Client)

	// Close, if not nil, is called when the agent is closed.
	Close func() error

	// Log is the logger for errors; see the package comment. The default is
	// slog.Default, which writes to the log of pmcd or, after serve.Main, of the PMDA.
	Log *slog.Logger
}

// A FetchFunc sets v to the value of one instance of a metric. If it sets nothing,
// the instance has no value. If it returns an error, the instance has no value
// either, and if no instance of the metric has a value, the client gets the last
// error.
type FetchFunc func(ctx context.Context, v *Value) error

// A StoreFunc stores new values of one metric.
type StoreFunc func(ctx context.Context, r *Request, s *Stored) error

// A Metric is one row of the table of metrics (pmDesc, pmLookupDesc(3)).
type Metric struct {
	Cluster int // 0 to 4095
	Item    int // 0 to 1023

	// Name is the full name, such as "disk.dev.read". It is used to find the
	// help text and in log lines. Clients see it only for a metric in a Subtree;
	// the names of other metrics are in the PMNS of the host.
	Name string

	Type  pdu.MetricType
	InDom *InDom // nil for a metric with one value
	Sem   pdu.Sem
	Units pdu.Units

	Fetch  FetchFunc // the default is that of the Cluster
	Store  StoreFunc // if nil, clients cannot store into the metric
	Source *Source   // read before Fetch is called; the default is that of the Cluster

	OneLine string // short help text, one line
	Text    string // full help text
	Labels  Labels
}

// A Cluster has defaults for the metrics of one cluster.
type Cluster struct {
	Cluster int // 0 to 4095
	Fetch   FetchFunc
	Source  *Source
	Labels  Labels // labels of the cluster itself
}

// An InDom is an instance domain.
type InDom struct {
	Serial int // 0 to 4194303
	Insts  Instances
	Source *Source // read before Insts is used

	OneLine string // short help text, one line
	Text    string // full help text
	Labels  Labels

	// InstLabels, if not nil, returns the labels of one instance, or nil if it
	// has none.
	InstLabels func(ctx context.Context, r *Request, inst pdu.Inst) (Labels, error)

	// Spell, if not nil, converts the name in a client's request to the name of
	// an instance or the first word of that, for example "1" to "000001".
	Spell func(name string) string
}

// Instances are the instances of an instance domain. During a fetch they change only
// while a Source is read. See also [Finder].
type Instances interface {
	// Each calls yield for each instance until yield returns false. Clients get
	// the instances in that order. inst is 0 or more. The part of a name before
	// the first blank is unique in the instance domain. data is for the author's
	// use; see [Value.Data].
	Each(yield func(inst int32, name string, data any) bool)
}

// A List is a list of instances. If the instances never change, InDom.Insts is a
// List, which New checks. If they change, InDom.Insts is a *List, and InDom.Source
// sets the List.
type List []pdu.Inst

// Each implements Instances.
func (l List) Each(yield func(inst int32, name string, data any) bool) {
	for i := range l {
		if !yield(l[i].ID, l[i].Name, nil) {
			return
		}
	}
}

// A Source is where values or instances come from, such as a file. It is read at
// most once in a request. Metrics and instance domains of one agent can share it.
type Source struct {
	// Read reads the data that the functions of metrics return. If it returns an
	// error, these functions are not called, and the metrics have that error.
	Read func(ctx context.Context, r *Request) error

	// The agent and the request of the last Read. The agent matters if a plugin
	// keeps the Source in a package variable and is started again.
	a             *agent
	requestNumber uint64

	err          error  // of the last Read
	failedMetric string // the metric that log lines about err name
}

// A Request is a request to the agent. It is valid until the function that got it
// returns.
type Request struct {
	Origin  agents.Origin
	Profile *pdu.Profile // the instances that a fetch requests; nil for other requests

	a     *agent
	ctx   context.Context // nil between requests
	steps int             // calls of Err since the last look at the context
	ended error           // what that returned
}

// itemsPerLook is after how many calls Request.Err looks at the context.
const itemsPerLook = 64

// Err returns the error of the context of the call, or nil. A function that handles many items,
// such as Source.Read, calls it for each of them, which costs little: Err looks at the context
// with every 64th call. The function returns if there is an error: its results are not used.
func (r *Request) Err() error {
	if r.steps++; r.steps < itemsPerLook {
		return r.ended
	}
	return r.look()
}

func (r *Request) look() error {
	r.steps = 0
	if r.ended == nil && r.ctx != nil {
		r.ended = r.ctx.Err()
	}
	return r.ended
}

// err returns the error of the context.
func (r *Request) err() error {
	if r.ended == nil {
		r.ended = r.ctx.Err()
	}
	return r.ended
}

// MarkLabelsChanged reports that labels have changed (PMCD_LABEL_CHANGE,
// pmFetch(3)). The next reply to a fetch tells pmcd, which tells its clients.
func (r *Request) MarkLabelsChanged() { r.a.changed |= pdu.StateLabelChange }

// MarkNamesChanged reports that names have changed (PMCD_NAMES_CHANGE, pmFetch(3)).
// The next reply to a fetch tells pmcd, which tells its clients. [Subtree.Set]
// reports it by itself.
func (r *Request) MarkNamesChanged() { r.a.changed |= pdu.StateNamesChange }

// ReadSource reads s, unless it has been read in this request, and returns the
// error of the read. It is for a Source that needs the data of another one.
func (r *Request) ReadSource(ctx context.Context, s *Source) error { return r.a.read(ctx, s) }
