package pmda

import (
	"context"
	"log/slog"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A Config is all there is to say of an agent. Only Domain and Metrics are
// needed. The agent keeps what the Config points to; its author may change
// only what the fields say can change.
type Config struct {
	// Name is that of the agent, such as "simple". It is the value of the
	// label "agent" that all metrics of a domain without Labels have.
	Name string

	// Domain is that of all PMIDs and instance domains, 1 to 510. The tables
	// below do not repeat it.
	Domain int

	Metrics  []Metric
	Clusters []Cluster // what the metrics of a cluster have in common
	InDoms   []*InDom  // besides those that metrics name
	Subtrees []*Subtree

	// Help has help texts in the format of newhelp(1), see [ParseHelp], for
	// metrics and instance domains that have none themselves.
	Help string

	// Labels are those of the domain. LabelFunc, if not nil, returns more of
	// them: of the domain, a cluster, a metric or an instance domain, as kind
	// says. It is called for each request.
	Labels    Labels
	LabelFunc func(ctx context.Context, r *Request, kind pdu.LabelKind, ident uint32) (Labels, error)

	// Check, if not nil, is called before each request; if it fails the
	// request fails with its error. Done is called after each request that
	// Check has let through.
	Check func(ctx context.Context, r *Request) error
	Done  func(r *Request)

	// BeforeFetch, if not nil, is called once for each fetch, before Sources are
	// read; if it fails, the whole fetch does. The slice is the caller's again
	// afterwards.
	BeforeFetch func(ctx context.Context, r *Request, ids []pdu.PMID) error

	// Store, if not nil, is called for each store, in place of the Store
	// functions of metrics, with all value sets of the request.
	Store func(ctx context.Context, r *Request, sets []Stored) error

	// TrackClients has the agent keep a [Client] for each client of pmcd that it
	// hears of; see [Request.Client]. Attrs has pmcd tell who they are, which
	// costs an exchange for each connection, and implies TrackClients. EndClient,
	// if not nil, is called when one has gone, and implies TrackClients too.
	TrackClients bool
	WantAttrs    bool
	EndClient    func(c *Client)

	// Close, if not nil, is called when the agent is no longer needed.
	Close func() error

	// Log is for errors that have no code. If nil it is slog.Default, which
	// goes to the log of pmcd or of the PMDA.
	Log *slog.Logger
}

// A FetchFunc sets v to the value of one instance of a metric. If it sets
// nothing there is no value. If it fails, and no other instance of the metric
// has a value, the client sees the error in its place.
type FetchFunc func(ctx context.Context, v *Value) error

// A StoreFunc accepts the values of one metric. See [Stored].
type StoreFunc func(ctx context.Context, r *Request, s *Stored) error

// A Metric is one row of the table of metrics (pmDesc, pmLookupDesc(3)).
type Metric struct {
	Cluster int // 0 to 4095
	Item    int // 0 to 1023

	// Name is the full name, dots included. It is used for help texts and
	// messages and, in a Subtree, for clients; the names of other metrics are
	// in the PMNS of the host.
	Name string

	Type  pdu.MetricType
	InDom *InDom // nil for a metric with one value
	Sem   pdu.Sem
	Units pdu.Units

	Fetch  FetchFunc // if nil, that of the Cluster
	Store  StoreFunc // if nil, the metric cannot be stored
	Source *Source   // if nil, that of the Cluster; read before Fetch is called

	OneLine string // one line of help text
	Text    string // many
	Labels  Labels
}

// A Cluster has what metrics of one cluster number have in common.
type Cluster struct {
	Cluster int
	Fetch   FetchFunc
	Source  *Source
	Labels  Labels
}

// An InDom is an instance domain.
type InDom struct {
	Serial int // 0 to 4194303
	Insts  Instances
	Source *Source // read before Insts is used

	OneLine string // one line of help text
	Text    string // many
	Labels  Labels

	// InstLabels, if not nil, returns the labels of one instance, nil if it
	// has none.
	InstLabels func(ctx context.Context, r *Request, inst pdu.Inst) (Labels, error)

	// Spell, if not nil, returns the name of an instance, or the first word of
	// it, for what a client wrote in its place.
	Spell func(name string) string
}

// Instances say which instances an instance domain has.
type Instances interface {
	// Each calls yield for each instance, in the order clients are to see,
	// until it returns false. Names are unique up to their first blank, IDs
	// are 0 or more. The data is the author's, see [Value.Data].
	Each(yield func(inst int32, name string, data any) bool)
}

// A List is a list of instances. A literal is for instances that are always
// the same, which New checks; for others, InDom.Insts is a pointer to a List
// that a Source sets.
type List []pdu.Inst

// Each implements Instances.
func (l List) Each(yield func(inst int32, name string, data any) bool) {
	for i := range l {
		if !yield(l[i].ID, l[i].Name, nil) {
			return
		}
	}
}

// A Source is something that values or instances come from, such as a file. It
// is read at most once in a request. Metrics and instance domains of one
// agent can share it.
type Source struct {
	// Read gets what is needed for the functions of metrics to find. If it
	// fails, they are not called, and each metric has its error.
	Read func(ctx context.Context, r *Request) error

	a             *agent // it was read for, and the request; a plugin that is started
	requestNumber uint64 // again may have kept it
	err           error
	failedMetric  string // the metric that the log names when it fails
}

// A Request is what an agent is asked. It is valid until the call returns.
type Request struct {
	Origin  agents.Origin
	Profile *pdu.Profile // of a fetch; nil if it is something else

	a *agent
}

// MarkLabelsChanged has clients told, by the next fetch, that labels are not what
// they were (PMCD_LABEL_CHANGE, pmFetch(3)).
func (r *Request) MarkLabelsChanged() { r.a.changed |= pdu.StateLabelChange }

// MarkNamesChanged has clients told, by the next fetch, that names are not what
// they were (PMCD_NAMES_CHANGE, pmFetch(3)). Subtrees do it by themselves.
func (r *Request) MarkNamesChanged() { r.a.changed |= pdu.StateNamesChange }

// ReadSource reads s, unless that was done in this request. It is for a Source that
// needs another one first.
func (r *Request) ReadSource(ctx context.Context, s *Source) error { return r.a.read(ctx, s) }
