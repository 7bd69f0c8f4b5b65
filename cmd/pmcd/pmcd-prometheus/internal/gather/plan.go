package gather

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

const (
	// maxPlanAge is when names are looked up again although pmcd has reported no change. Not
	// all agents report that they have new metrics.
	maxPlanAge = time.Minute

	// retryAge is the same if an agent has not answered.
	retryAge = 5 * time.Second

	// maxMissing is how long a plan has the metrics of an agent that does not answer. It has values
	// of them again as soon as the agent is back.
	maxMissing = 5 * time.Minute

	// maxMetrics is how many metrics are fetched: no more fit into a request.
	maxMetrics = 16000
)

// A plan is what to fetch, and what is known about it. It is made anew when pmcd reports a
// change, and from time to time. What is known of a metric stays in the next plan if it has the same
// descriptor and names. If its texts and labels may be others, they are asked for again meanwhile.
type plan struct {
	made    time.Time
	retry   bool      // an agent has not answered
	pending []*metric // not described yet
	metrics []*metric // described, in the order of the name space
	ids     []pdu.PMID
	context []pmapi.Label           // labels of the host
	levels  map[level][]pmapi.Label // other labels that several metrics have in common
	indoms  map[pdu.InDom]*indom
}

// A metric has numbers for values, or strings.
type metric struct {
	desc   pdu.Desc
	order  int              // in the name space
	asked  []string         // names that it is asked for by
	names  []string         // asked and, once it is described, all others
	found  time.Time        // when the names and the descriptor were these
	again  bool             // names, help and labels may be others
	help   string           // one line
	lower  []pmapi.Label    // of the levels between the host and instances
	labels []pmapi.Label    // of the host, and lower
	pairs  []*dto.LabelPair // of labels, which series share
	series map[int32]*series
	own    map[uint64]bool // hashes of the labels of series
	indom  int             // the version of the indom that series are of
}

// A level is what labels belong to.
type level struct {
	kind  pmapi.LabelKind
	ident uint32
}

// isOld reports whether to look up names again.
func (p *plan) isOld() bool {
	age := time.Since(p.made)
	return age > maxPlanAge || p.retry && age > retryAge
}

func includes(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// isNamed reports whether one of a metric's names is asked for itself, and not only a node above
// it. The values of strings are labels: an argument such as proc.psinfo must not give each command
// line to Prometheus.
func (g *Gatherer) isNamed(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(g.conf.Metrics, name) })
}

// isNumber reports whether values of a type can be those of Prometheus.
func isNumber(t pdu.MetricType) bool {
	switch t {
	case pdu.Metric32, pdu.MetricU32, pdu.Metric64, pdu.MetricU64, pdu.MetricFloat, pdu.MetricDouble:
		return true
	}
	return false
}

// names returns the names of all metrics for p, each once, and the arguments that agents have not
// answered.
func (g *Gatherer) names(ctx context.Context, c Client, p *plan) (names, unanswered []string, err error) {
	known := make(map[string]bool)
	for _, top := range g.conf.Metrics {
		for name, err := range c.Traverse(ctx, top) {
			if isLost(err) {
				return nil, nil, err
			}
			if err != nil {
				if isTransient(err) {
					p.retry = true
					unanswered = append(unanswered, top)
				}
				if !g.conf.Optional || !errors.Is(err, pdu.ErrnoName) {
					g.logOnce(slog.LevelWarn, "name "+top, "no metrics {metrics:q}: {error}", "metrics", top, "error", err)
				}
				break
			}
			if !known[name] {
				known[name] = true
				names = append(names, name)
			}
		}
	}
	return names, unanswered, nil
}

// setIDs puts the metrics in order.
func (p *plan) setIDs() {
	slices.SortFunc(p.metrics, func(a, b *metric) int { return a.order - b.order })
	p.ids = p.ids[:0]
	for _, m := range p.metrics {
		p.ids = append(p.ids, m.desc.PMID)
	}
}

// isLost reports whether err means that there is no connection any more.
func isLost(err error) bool {
	var lost *pmapi.ConnError
	return errors.As(err, &lost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isTransient reports whether an agent may answer a request later that it has not answered
// now.
func isTransient(err error) bool {
	for _, e := range []pdu.Errno{pdu.ErrnoAgain, pdu.ErrnoTimeout, pdu.ErrnoNotReady, pdu.ErrnoNoAgent, pdu.ErrnoIPC, pdu.ErrnoPMDAFenced} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
