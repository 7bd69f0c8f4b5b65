package pmda

import (
	"context"

	"github.com/gopcp/pmcd/pdu"
)

// A Row is what is special about a metric in a table, but for its texts, which
// a file of help has. It has fields in the order of PCP's pmdaMetric.
type Row struct {
	Cluster, Item int
	Name          string
	Type          pdu.MetricType
	Sem           pdu.Sem
	Units         pdu.Units
	Fetch         FetchFunc
}

// Table returns a metric for each row; the rest of it is that of common, such
// as InDom, Source and Labels. R is a type of the caller's, because go vet
// wants the names of fields in rows of another package:
//
//	type row pmda.Row
//
//	pmda.Table(pmda.Metric{InDom: disks}, []row{
//		{0, 4, "disk.dev.read", u64, counter, count, reads},
//	})
func Table[R ~struct {
	Cluster, Item int
	Name          string
	Type          pdu.MetricType
	Sem           pdu.Sem
	Units         pdu.Units
	Fetch         FetchFunc
}](common Metric, rows []R) []Metric {
	ms := make([]Metric, len(rows))
	for i, r := range rows {
		r, m := Row(r), common
		m.Cluster, m.Item, m.Name = r.Cluster, r.Item, r.Name
		m.Type, m.Sem, m.Units, m.Fetch = r.Type, r.Sem, r.Units, r.Fetch
		ms[i] = m
	}
	return ms
}

// Of makes a FetchFunc of one that cannot fail and gets the data of the
// instance, see [Instances].
func Of[T any](f func(v *Value, data *T)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		f(v, v.Data().(*T))
		return nil
	}
}

// Number makes a FetchFunc of one that cannot fail; ok is false if there is no
// value.
func Number(f func() (n uint64, ok bool)) FetchFunc {
	return func(_ context.Context, v *Value) error {
		if n, ok := f(); ok {
			v.SetUint(n)
		}
		return nil
	}
}
