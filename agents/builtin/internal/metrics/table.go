// Package metrics makes tables of metrics with one short line for each metric.
package metrics

import (
	"math"
	"math/bits"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Scale returns n * mul / div, at most the largest number. div is not 0.
func Scale(n, mul, div uint64) uint64 {
	hi, lo := bits.Mul64(n, mul)
	if hi >= div {
		return math.MaxUint64
	}
	quo, _ := bits.Div64(hi, lo, div)
	return quo
}

// fields are those of a Row.
type fields = struct {
	Cluster, Item int
	Name          string
	Type          pdu.MetricType
	Sem           pdu.Sem
	Units         pdu.Units
	Fetch         pmda.FetchFunc
}

// A Row has the fields in which the metrics of a table differ, in the order of PCP's
// pmdaMetric. The help texts are in a file.
//
// A package with a table defines a type of its own with Row as the underlying type.
// go vet permits literals without field names only for such a type.
type Row fields

// Table returns a metric for each row. The other fields, such as InDom and Source,
// are those of common.
func Table[R ~fields](common pmda.Metric, rows []R) []pmda.Metric {
	ms := make([]pmda.Metric, len(rows))
	for i := range rows {
		r := Row(rows[i])
		m := common
		m.Cluster, m.Item, m.Name = r.Cluster, r.Item, r.Name
		m.Type, m.Sem, m.Units, m.Fetch = r.Type, r.Sem, r.Units, r.Fetch
		ms[i] = m
	}
	return ms
}
