package compare

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

func TestNear(t *testing.T) {
	num, text := func(f float64) pmapi.Value { return pmapi.ValueOf(f) }, func(s string) pmapi.Value { return pmapi.ValueOf(s) }
	for _, tt := range []struct {
		before, after, v pmapi.Value
		tolerance        float64
		want             bool
	}{
		{num(1), num(3), num(2), 0, true},
		{num(3), num(1), num(2), 0, true},
		{num(1), num(3), num(4), 0, false},
		{num(100), num(100), num(109), 0.1, true},
		{num(100), num(100), num(112), 0.1, false},
		{num(100), num(100), num(91), 0.1, true},
		{num(-100), num(-100), num(-112), 0.1, false},
		{num(0), num(0), num(0.001), 0.1, false},
		{num(0), num(0), num(0), 0, true},
		{num(math.NaN()), num(1), num(math.NaN()), 0, true},
		{num(1), num(1), num(math.NaN()), 1, false},
		{num(math.Inf(1)), num(math.Inf(1)), num(math.Inf(1)), 0, true},
		{text("a"), text("b"), text("b"), 0, true},
		{text("a"), text("a"), text("b"), 1, false},
		{text("1"), text("1"), num(1), 1, false},
	} {
		if got := near(tt.before, tt.after, tt.v, tt.tolerance); got != tt.want {
			t.Errorf("%v..%v and %v, %v: %t", tt.before, tt.after, tt.v, tt.tolerance, got)
		}
	}
}

// metric returns a metric with instances that have values.
func metric(insts ...any) *metrics.Metric {
	m := &metrics.Metric{Name: "m"}
	for i := 0; i < len(insts); i += 2 {
		m.Values = append(m.Values, metrics.Value{Instance: insts[i].(string), Is: pmapi.ValueOf(float64(insts[i+1].(int)))})
	}
	return m
}

func TestMetricDiffs(t *testing.T) {
	failed := func(code pdu.Errno) *metrics.Metric { return &metrics.Metric{Name: "m", Err: code} }
	for _, tt := range []struct {
		name             string
		before, after, b *metrics.Metric
		want             []Difference
		both             int
	}{
		{"equal", metric("a", 1, "b", 2), metric("a", 1, "b", 2), metric("b", 2, "a", 1), nil, 2},
		{"moving", metric("a", 1), metric("a", 3), metric("a", 2), nil, 1},
		{"other value", metric("", 1), metric("", 1), metric("", 9), []Difference{{"m", "", "value", "1", "9"}}, 1},
		{"instance of A", metric("a", 1, "b", 1), metric("a", 1, "b", 1), metric("a", 1), []Difference{{"m", "", "instances", "also b", "-"}}, 1},
		{"instance that has gone", metric("a", 1, "b", 1), metric("a", 1), metric("a", 1), nil, 1},
		{"instance that is new", metric("a", 1), metric("a", 1, "b", 1), metric("a", 1, "b", 1), nil, 2},
		{"instances of B", metric(), metric(), metric("a", 1, "b", 1, "c", 1, "d", 1, "e", 1), []Difference{{"m", "", "instances", "-", "also a, b, c and 2 more"}}, 0},
		{"no value", metric("", 1), metric("", 1), metric(), []Difference{{"m", "", "instances", "has a value", "-"}}, 0},
		{"same error", failed(pdu.ErrnoAgain), failed(pdu.ErrnoAgain), failed(pdu.ErrnoAgain), nil, 0},
		{"error that has changed", failed(pdu.ErrnoAgain), metric("", 1), metric("", 1), nil, 0},
		{"error of B", metric("", 1), metric("", 1), failed(pdu.ErrnoNoAgent), []Difference{{"m", "", "value", "present", "no agent for the domain"}}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, both := metricDiffs(tt.before, tt.after, tt.b, 0)
			if !reflect.DeepEqual(got, tt.want) || both != tt.both {
				t.Errorf("got %+v, %d, want %+v, %d", got, both, tt.want, tt.both)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	r := &Report{A: "a:1", B: "b:1", Metrics: 3, Values: 5, Differences: []Difference{
		{"x", "", "name", "present", "absent"}, {"y", "i", "value", "1\x1b", strings.Repeat("é", 60)}, {"z", "", "value", "1", "2"}}}
	const want = `METRIC  DIFFERENCE  A        B
x       name        present  absent
y[i]    value       1\x1b    ` + "ééééééééééééééééééééééééééééééééééééé..." + `
z       value       1        2

A is a:1
B is b:1
3 metrics and 5 values of both compared, name: 1, value: 2
`
	if err := Print(&b, r); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &b, want)
	}
}
