package pmda

import (
	"context"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Stored has the values that a client stores into one metric.
type Stored struct {
	PMID   pdu.PMID
	Metric *Metric // nil for an unknown PMID, which only Config.Store gets
	Values []StoredValue
}

// A StoredValue is the value for one instance.
//
// Its methods convert the value to a Go type. Their errors are those of
// pmExtractValue(3): PM_ERR_SIGN for a negative number if the result is unsigned,
// PM_ERR_TRUNC for a number out of range, and PM_ERR_CONV if the value has another
// type or its length is wrong. The result is zero then.
type StoredValue struct {
	Inst int32 // pdu.NoInst for a metric without instances

	value pdu.Value
	typ   pdu.MetricType
}

// Store implements [agents.Storer]. It stores value sets in order until the first
// error.
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

// RootOnly returns a StoreFunc that calls f if the client is root: if pmcd knows
// that its user id is 0. Other clients get PM_ERR_PERMISSION, as with
// pmcd.control.*, including clients whose user is unknown, such as those that have
// connected by TCP and not authenticated. RootOnly needs Config.WantAttrs. Without
// it the StoreFunc rejects all clients.
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

// stored converts a value set of a store request.
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
