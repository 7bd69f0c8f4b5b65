package pmda

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Stored is the values that a client stores into one metric.
type Stored struct {
	PMID   pdu.PMID
	Metric *Metric // nil if there is no such metric
	Values []StoredValue
}

// A StoredValue is the value for one instance.
//
// Its methods return the value as a Go type. Like pmExtractValue(3) they fail
// with PM_ERR_SIGN if a negative number should be unsigned, PM_ERR_TRUNC if it
// does not fit, and PM_ERR_CONV if the value is nothing of the kind, or not of
// the length that its type has. They return 0 then.
type StoredValue struct {
	Inst int32 // pdu.NoInst for a metric without instances

	value pdu.Value
	typ   pdu.MetricType
}

// Store implements [agents.Storer]. Value sets are taken in order, up to the
// first error.
func (a *agent) Store(ctx context.Context, o agents.Origin, res *pdu.Result) error {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	sets := make([]Stored, len(res.Sets))
	for i := range sets {
		sets[i] = a.stored(&res.Sets[i])
	}
	if a.conf.Store != nil {
		if err := a.conf.Store(ctx, r, sets); err != nil {
			return a.errno("store", "", err)
		}
		return nil
	}
	for i := range sets {
		s := &sets[i]
		switch {
		case s.Metric == nil:
			return pdu.ErrnoPMID
		case s.Metric.Store == nil:
			return pdu.ErrnoPermission
		}
		if err := s.Metric.Store(ctx, r, s); err != nil {
			return a.errno("store into ", s.Metric.logName(), err)
		}
	}
	return nil
}

// RootOnly makes a StoreFunc that accepts values from root alone: from a client
// that pmcd knows to be user 0, as pmcd.control.* does. Others get
// PM_ERR_PERMISSION, and so does a client whose user is not known, such as one
// over TCP that has not authenticated. It takes a Config that asks for Attrs;
// without that it refuses all.
func RootOnly(f StoreFunc) StoreFunc {
	return func(ctx context.Context, r *Request, s *Stored) error {
		c := r.Client()
		if c == nil {
			return pdu.ErrnoPermission
		}
		if uid, ok := c.UID(); !ok || uid != 0 {
			return pdu.ErrnoPermission
		}
		return f(ctx, r, s)
	}
}

func (a *agent) stored(set *pdu.ValueSet) Stored {
	s := Stored{PMID: set.PMID}
	typ := pdu.MetricNoSupport
	if m := a.metrics[set.PMID]; m != nil {
		s.Metric, typ = m.Metric, m.desc.ValueType
	}
	s.Values = make([]StoredValue, len(set.Values))
	for i, v := range set.Values {
		s.Values[i] = StoredValue{Inst: v.Inst, value: v, typ: typ}
		if set.Format != pdu.FormatInsitu {
			s.Values[i].typ = v.Type
		}
	}
	return s
}
