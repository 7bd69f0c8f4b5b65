// Package gather makes metric families of Prometheus from the metrics of a pmcd. Names, types
// and labels are those of pmproxy(1) for the same metrics: see [Gatherer.Gather].
//
// It knows neither HTTP nor text formats.
package gather

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A Client is what a Gatherer uses of a [pmapi.Client], which connects anew by itself.
type Client interface {
	Traverse(ctx context.Context, name string) iter.Seq2[string, error]
	Lookup(ctx context.Context, names ...string) ([]pdu.PMID, error)
	Names(ctx context.Context, id pdu.PMID) ([]string, error)
	Descs(ctx context.Context, ids ...pdu.PMID) ([]pdu.Desc, error)
	Text(ctx context.Context, id pdu.PMID, kind pmapi.TextKind) (string, error)
	LabelsAt(ctx context.Context, kind pmapi.LabelKind, ident uint32) ([]pmapi.InstLabels, error)
	Instances(ctx context.Context, indom pdu.InDom) ([]pdu.Inst, error)
	Fetch(ctx context.Context, ids []pdu.PMID, r *pmapi.Result) error
	Close() error
}

// A Config is what a Gatherer needs.
type Config struct {
	// Dial connects to pmcd.
	Dial func(ctx context.Context) (Client, error)

	// Metrics are names of metrics, or of nodes in the name space: then all metrics below
	// are meant. "" is the root.
	Metrics []string

	// Optional is whether the log is silent about names that do not exist.
	Optional bool

	// Log gets one line for each subject.
	Log *slog.Logger
}

// A Gatherer gathers the values of metrics. Gather and Ready are each for one goroutine at a
// time, and do not wait for each other: each has a connection.
type Gatherer struct {
	conf    Config
	client  Client // of Gather
	status  Client // of Ready
	plan    *plan  // nil before the first one
	changes changes
	scrape  int // number of the present call of Gather
	result  pmapi.Result
	logged  map[string]bool // subjects of log lines
}

// New returns a Gatherer without a connection.
func New(c Config) *Gatherer {
	return &Gatherer{conf: c, logged: make(map[string]bool)}
}

// Close closes the connections. No other method may be called at the same time.
func (g *Gatherer) Close() (err error) {
	for _, c := range []Client{g.client, g.status} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}

// connect returns the client at c. If there is none, it dials.
func (g *Gatherer) connect(ctx context.Context, c *Client) (Client, error) {
	if *c == nil {
		dialed, err := g.conf.Dial(ctx)
		if err != nil {
			return nil, err
		}
		*c = dialed
	}
	return *c, nil
}

// Gather fetches the values of all metrics with one request. It returns a family for each name
// of a metric that has values which are numbers, in the order of the name space.
//
// A metric of strings that [Config.Metrics] names itself, such as filesys.mountdir, has the family
// filesys_mountdir_info. Its values are 1, and a label has the string: mountdir="/home".
//
//   - The name is that of the metric with "_" for ".". If two metrics have the same name then,
//     the second is left out.
//   - The type is counter for a counter, and gauge otherwise.
//   - The labels are those of the host, the domain, the instance domain, the cluster, the item
//     and the instance. Of labels with the same name the last one counts. Instances also have
//     the labels instname and instid, unless there are labels with these names already. The
//     user that asks, which pmcd adds for clients at its Unix domain socket, is left out.
//
// The first calls also find out what the metrics are. With many metrics and a slow network,
// this may take longer than ctx allows; then these calls return some of the metrics.
//
// The families share memory with those of later calls, so they must not be written to.
func (g *Gatherer) Gather(ctx context.Context) ([]*dto.MetricFamily, error) {
	c, err := g.connect(ctx, &g.client)
	if err != nil {
		return nil, err
	}
	// If pmcd reports a change with the values, names and labels are looked up once more. A
	// change that comes then, or without the time for that, is for the next call.
	start := time.Now()
	for range 2 {
		if err := g.update(ctx, c); err != nil {
			return nil, err
		}
		if err := c.Fetch(ctx, g.plan.ids, &g.result); err != nil {
			return nil, err
		}
		if !g.changes.add(&g.result) {
			break
		}
		// Half of the rest is for update. A fetch that does not end in time closes the connection,
		// and the next one reports that as a change.
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 3*time.Since(start) {
			break
		}
	}
	return g.families(ctx, c, g.plan)
}

// errNone is the error of Gather if pmcd has no metrics that a Gatherer could return.
var errNone = errors.New("pmcd has none of the metrics, or their values are not numbers")

// update makes the plan if there is none or if it is old, and completes it as far as the time
// permits. New metrics have half of the time, and those that are served already a tenth.
func (g *Gatherer) update(ctx context.Context, c Client) error {
	if g.plan == nil || g.changes.any() || g.plan.isOld() {
		p, err := g.replan(ctx, c)
		if err != nil {
			return err
		}
		g.plan = p
		g.changes.bits, g.changes.reconnected = 0, false
	}
	if err := g.plan.describe(ctx, c, part(ctx, 2)); err != nil {
		return err
	}
	if err := g.plan.describeAgain(ctx, c, part(ctx, 10)); err != nil {
		return err
	}
	if len(g.plan.ids) == 0 {
		return errNone
	}
	if rest := len(g.plan.pending); rest > 0 {
		g.logOnce(slog.LevelInfo, "pending", "{count} metrics are described, {more} more follow with the next scrapes",
			"count", len(g.plan.ids), "more", rest)
	}
	return nil
}

// part returns when an nth of the time that ctx allows is over.
func part(ctx context.Context, n int) time.Time {
	rest := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		rest = time.Until(deadline) / time.Duration(n)
	}
	return time.Now().Add(rest)
}

// maxLogged is how many subjects a Gatherer remembers. It does not log further ones.
const maxLogged = 1000

// logOnce logs a line, unless it has done so for the subject.
func (g *Gatherer) logOnce(level slog.Level, subject, message string, args ...any) {
	if g.logged[subject] || len(g.logged) >= maxLogged {
		return
	}
	g.logged[subject] = true
	g.conf.Log.Log(context.Background(), level, message, args...)
}
