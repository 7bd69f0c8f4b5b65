package mmv

import (
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// A Metric describes a metric (pmLookupDesc(3)).
type Metric struct {
	// Name is what follows "mmv." and the name of the file: a letter, followed by letters,
	// digits and underscores; or several of these with dots between them. It has at most 255
	// bytes.
	Name string

	// Item is the item of the PMID, from 1 to 1023. If it is 0, Publish chooses the lowest
	// one that is not in use.
	Item int

	// Sem is the semantics. The default is pdu.SemCounter for counters and for an Elapsed,
	// else pdu.SemInstant.
	Sem pdu.Sem

	// Units are pdu.Count, pdu.Byte, pdu.Usec and so on, or what pdu.NewUnits returns. The
	// default is a number without a dimension. An Elapsed has pdu.Usec.
	Units pdu.Units

	OneLine string // short help text, one line, at most 255 bytes
	Text    string // full help text, at most 255 bytes
	Labels  Labels
}

// A metric is a Metric that was defined.
type metric struct {
	Metric
	typ    mmvformat.Type
	labels []label
	domain *Instances // nil for one value
	table  table      // of the values of a metric with a domain
	cells  []cell     // in the order of the instances
}

// A kind is what metrics of a type in Go have in common.
type kind struct {
	typ mmvformat.Type
	sem pdu.Sem
}

var (
	counter      = kind{mmvformat.Uint64, pdu.SemCounter}
	floatCounter = kind{mmvformat.Double, pdu.SemCounter}
	gauge        = kind{mmvformat.Int64, pdu.SemInstant}
	floatGauge   = kind{mmvformat.Double, pdu.SemInstant}
	text         = kind{mmvformat.String, pdu.SemInstant}
	elapsed      = kind{mmvformat.Elapsed, pdu.SemCounter}
)

// Counter defines a metric with one value. An error says all that is wrong with m; then the
// result is nil, which ignores updates. The same holds for the other methods that define
// metrics.
func (r *Registry) Counter(m Metric) (*Counter, error) { return single[Counter](r, counter, m) }

// FloatCounter defines a metric with one value.
func (r *Registry) FloatCounter(m Metric) (*FloatCounter, error) {
	return single[FloatCounter](r, floatCounter, m)
}

// Gauge defines a metric with one value.
func (r *Registry) Gauge(m Metric) (*Gauge, error) { return single[Gauge](r, gauge, m) }

// FloatGauge defines a metric with one value.
func (r *Registry) FloatGauge(m Metric) (*FloatGauge, error) {
	return single[FloatGauge](r, floatGauge, m)
}

// String defines a metric with one value.
func (r *Registry) String(m Metric) (*String, error) { return single[String](r, text, m) }

// Elapsed defines a metric with one value.
func (r *Registry) Elapsed(m Metric) (*Elapsed, error) { return single[Elapsed](r, elapsed, m) }

// A value is a pointer to the value of a metric, of a type V.
type value[V any] interface {
	*V
	cell
	init(r *Registry)
}

func newValue[V any, P value[V]](r *Registry) P {
	v := P(new(V))
	v.init(r)
	return v
}

// single defines a metric with one value.
func single[V any, P value[V]](r *Registry, k kind, m Metric) (P, error) {
	v := newValue[V, P](r)
	r.mu.Lock()
	defer r.mu.Unlock()
	def, err := r.check(k, m)
	if err != nil {
		return nil, err
	}
	def.cells = []cell{v}
	return v, nil
}

// check adds a metric without values, unless something is wrong with it.
func (r *Registry) check(k kind, m Metric) (*metric, error) {
	def := &metric{Metric: m, typ: k.typ}
	if def.Sem == 0 {
		def.Sem = k.sem
	}
	if k == elapsed && def.Units == 0 {
		def.Units = pdu.Usec
	}
	var err error
	def.labels, err = m.Labels.encode()
	errs := []error{err, checkName(m.Name), checkOneLine(m.OneLine), checkText("a help text", m.Text)}
	switch {
	case r.names[m.Name]:
		errs = append(errs, errors.New("a metric of this name is defined already"))
	case r.conf.NoPrefix && isReserved(m.Name):
		errs = append(errs, errReserved)
	}
	switch {
	case m.Item < 0 || m.Item > mmvformat.MaxItem:
		errs = append(errs, fmt.Errorf("item %d is not in the range of 1 to %d", m.Item, mmvformat.MaxItem))
	case m.Item != 0 && r.items.used[m.Item]:
		errs = append(errs, fmt.Errorf("item %d is in use", m.Item))
	case len(r.metrics) == mmvformat.MaxItem:
		errs = append(errs, fmt.Errorf("a file has at most %d metrics", mmvformat.MaxItem))
	}
	if !validSem(def.Sem) {
		errs = append(errs, fmt.Errorf("%d is not a semantics", m.Sem))
	}
	if k == elapsed && (def.Units != pdu.Usec || def.Sem != pdu.SemCounter) {
		errs = append(errs, errors.New("elapsed time is a counter of microseconds"))
	}
	err = errors.Join(errs...)
	if err == nil {
		err = r.countLabels(len(def.labels))
	}
	if err != nil {
		return nil, fmt.Errorf("mmv: metric %s: %w", m.Name, err)
	}
	r.names[m.Name], r.items.used[m.Item] = true, true
	r.metrics = append(r.metrics, def)
	r.outdated = true
	return def, nil
}

// numbers are the items, or the serials, that are in use.
type numbers struct {
	used map[int]bool
	last int // that choose has returned; all below are used
}

// choose returns the lowest number from 1 that is not in use, and uses it.
func (n *numbers) choose() int {
	n.last++
	for n.used[n.last] {
		n.last++
	}
	n.used[n.last] = true
	return n.last
}
