package simple

import (
	"context"
	"math"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// store follows the rules of PCP's agent. After an error it still stores
// simple.numfetch, but no further values of simple.color. A metric of another cluster
// ends the store. It returns the last error.
func (a *agent) store(_ context.Context, _ *pmda.Request, sets []pmda.Stored) error {
	var err error
	for _, s := range sets {
		switch {
		case s.Metric == nil && s.PMID.Cluster() != 0:
			return pdu.ErrnoPMID
		case s.Metric == nil:
			err = pdu.ErrnoPMID
		case s.Metric.Cluster != 0:
			return pdu.ErrnoPermission
		case s.Metric.Item == 0:
			if e := a.storeNumfetch(s.Values); e != nil {
				err = e
			}
		default:
			for i := 0; i < len(s.Values) && err == nil; i++ {
				err = a.storeColor(s.Values[i])
			}
		}
	}
	return err
}

// storeNumfetch stores the first value. Its limits are those of int in C.
func (a *agent) storeNumfetch(values []pmda.StoredValue) error {
	if len(values) == 0 {
		return pdu.ErrnoBadStore
	}
	n, err := values[0].AsInt64()
	if err != nil {
		return err
	}
	if n < 0 || n > math.MaxInt32 {
		a.numfetch = 0
		return pdu.ErrnoBadStore
	}
	a.numfetch = uint32(n)
	return nil
}

// storeColor stores a value. If the value is out of range it stores the nearest valid
// value and returns an error.
func (a *agent) storeColor(v pmda.StoredValue) error {
	n, err := v.AsInt64()
	if err != nil {
		return err
	}
	if n < 0 || n > 255 {
		n, err = min(max(n, 0), 255), pdu.ErrnoBadStore
	}
	if v.Inst < 0 || int(v.Inst) >= len(a.color) {
		return pdu.ErrnoInst
	}
	a.color[v.Inst] = int32(n)
	return err
}
