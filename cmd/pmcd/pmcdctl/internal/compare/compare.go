// Package compare compares the metrics of two pmcds: names, descriptors and values.
package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/table"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Options say what is compared.
type Options struct {
	Prefixes  []string // of names; none are all
	Exclude   []string // subtrees that are left out
	Tolerance float64  // of numbers: the part of the larger one by which they may differ
	Rounds    int      // a difference of values counts if it is there in so many rounds
}

// A Difference is what is not the same.
type Difference struct {
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"`
	// What is name, descriptor, PMID, type, semantics, units, domain, instances or value.
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// A Report is the result of a comparison.
type Report struct {
	A           string       `json:"a"` // hosts
	B           string       `json:"b"`
	Metrics     int          `json:"metrics"` // that both have
	Values      int          `json:"values"`  // that both have
	Differences []Difference `json:"differences"`
}

// Run compares two pmcds.
func Run(ctx context.Context, a, b *pmapi.Client, o Options) (*Report, error) {
	r := &Report{A: a.Spec().String(), B: b.Spec().String(), Differences: []Difference{}}
	names, err := r.names(ctx, a, b, o)
	if err != nil {
		return nil, err
	}
	r.Metrics = len(names)
	if names, err = r.descs(ctx, a, b, names); err != nil {
		return nil, err
	}
	// Names that are fetched together: so many that a fetch takes little time.
	const together = 200
	for some := range slices.Chunk(names, together) {
		d, n, err := values(ctx, a, b, some, o)
		if err != nil {
			return nil, err
		}
		r.Values += n
		r.Differences = append(r.Differences, d...)
	}
	return r, nil
}

// names compares the names, and returns those that both have.
func (r *Report) names(ctx context.Context, a, b *pmapi.Client, o Options) (both []string, err error) {
	var all [2][]string
	for i, c := range []*pmapi.Client{a, b} {
		prefixes := o.Prefixes
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		for _, prefix := range prefixes {
			names, err := metrics.Names(ctx, c, prefix)
			if err != nil && !errors.Is(err, pdu.ErrnoName) {
				return nil, err
			}
			all[i] = append(all[i], names...)
		}
		all[i] = slices.DeleteFunc(all[i], func(name string) bool {
			return slices.ContainsFunc(o.Exclude, func(x string) bool { return name == x || strings.HasPrefix(name, x+".") })
		})
		slices.Sort(all[i])
		all[i] = slices.Compact(all[i])
	}
	if len(all[0])+len(all[1]) == 0 {
		return nil, errors.New("neither has such metrics (pmcdctl list shows those that exist)")
	}
	inB := make(map[string]bool, len(all[1]))
	for _, name := range all[1] {
		inB[name] = true
	}
	for _, name := range all[0] {
		if inB[name] {
			both = append(both, name)
			delete(inB, name)
		} else {
			r.add(name, "", "name", "present", "absent")
		}
	}
	for _, name := range all[1] {
		if inB[name] {
			r.add(name, "", "name", "absent", "present")
		}
	}
	return both, nil
}

func (r *Report) add(name, inst, what, a, b string) {
	r.Differences = append(r.Differences, Difference{name, inst, what, a, b})
}

// descs compares the descriptors, and returns the names of metrics whose values can be
// compared.
func (r *Report) descs(ctx context.Context, a, b *pmapi.Client, names []string) (same []string, err error) {
	ofA, err := metrics.Descs(ctx, a, names)
	if err != nil {
		return nil, err
	}
	ofB, err := metrics.Descs(ctx, b, names)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		x, y := &ofA[i], &ofB[i]
		ok := true
		for _, d := range []struct{ what, a, b string }{
			{"descriptor", errorText(x.Err), errorText(y.Err)},
			{"type", x.Type, y.Type},
			{"semantics", x.Semantics, y.Semantics},
			{"units", x.Units, y.Units},
			{"domain", x.InDom, y.InDom},
			{"PMID", x.PMID, y.PMID},
		} {
			if d.a != d.b {
				ok = false
				r.add(name, "", d.what, d.a, d.b)
				if d.what == "descriptor" {
					break
				}
			}
		}
		if ok && x.Err == nil {
			same = append(same, name)
		}
	}
	return same, nil
}

// errorText returns the text of an error without names, which are the same.
func errorText(err error) string {
	var code pdu.Errno
	switch {
	case err == nil:
		return "present"
	case errors.As(err, &code):
		return code.Error()
	}
	return err.Error()
}

// values compares the values of some metrics, and returns how many both have. What differs is
// fetched again, because values change between two fetches.
func values(ctx context.Context, a, b *pmapi.Client, names []string, o Options) (diffs []Difference, n int, err error) {
	for round := range o.Rounds {
		var now []Difference
		before, err := fetch(ctx, a, names)
		if err != nil {
			return nil, 0, err
		}
		other, err := fetch(ctx, b, names)
		if err != nil {
			return nil, 0, err
		}
		after, err := fetch(ctx, a, names)
		if err != nil {
			return nil, 0, err
		}
		var again []string
		for i, name := range names {
			d, both := metricDiffs(&before.Metrics[i], &after.Metrics[i], &other.Metrics[i], o.Tolerance)
			if round == 0 {
				n += both
			}
			if len(d) > 0 {
				now, again = append(now, d...), append(again, name)
			}
		}
		if diffs, names = now, again; len(names) == 0 {
			break
		}
	}
	return diffs, n, nil
}

// fetch fetches metrics. Its result owns its values.
func fetch(ctx context.Context, c *pmapi.Client, names []string) (*metrics.Sample, error) {
	selected := make([]metrics.Selection, len(names))
	for i, name := range names {
		selected[i].Name = name
	}
	return metrics.NewPlainSampler(c, selected).Fetch(ctx)
}

// metricDiffs compares the values of a metric of b with those of a before and after, and
// returns how many both have.
func metricDiffs(before, after, b *metrics.Metric, tolerance float64) (diffs []Difference, both int) {
	add := func(inst, what, x, y string) {
		diffs = append(diffs, Difference{b.Name, inst, what, x, y})
	}
	if before.Err != nil || b.Err != nil {
		if x, y := errorText(before.Err), errorText(b.Err); x != y && errorText(after.Err) != y {
			add("", "value", x, y)
		}
		return diffs, 0
	}
	var onlyA, onlyB []string
	for i := range b.Values {
		v := &b.Values[i]
		x, y := find(before, v), find(after, v)
		if x == nil && y == nil {
			onlyB = append(onlyB, v.Instance)
			continue
		}
		if x == nil {
			x = y
		}
		if y == nil {
			y = x
		}
		if both++; !near(x.Is, y.Is, v.Is, tolerance) {
			add(v.Instance, "value", text(x), text(v))
		}
	}
	for i := range before.Values {
		if v := &before.Values[i]; find(after, v) != nil && find(b, v) == nil {
			onlyA = append(onlyA, v.Instance)
		}
	}
	if len(onlyA)+len(onlyB) > 0 {
		add("", "instances", only(onlyA), only(onlyB))
	}
	return diffs, both
}

// only returns the text for instances that only one has. The empty name is the value of a
// metric without instances.
func only(insts []string) string {
	const few = 3
	switch n := len(insts); {
	case n == 0:
		return "-"
	case insts[0] == "":
		return "has a value"
	case n > few:
		return fmt.Sprintf("also %s and %d more", strings.Join(insts[:few], ", "), n-few)
	}
	return "also " + strings.Join(insts, ", ")
}

// find returns the value of m for the same instance as v, by its name: the numbers may differ.
func find(m *metrics.Metric, v *metrics.Value) *metrics.Value {
	for i := range m.Values {
		if m.Values[i].Instance == v.Instance {
			return &m.Values[i]
		}
	}
	return nil
}

func text(v *metrics.Value) string {
	if v.Err != nil {
		return errorText(v.Err)
	}
	return v.Text()
}

// near reports whether v is within the tolerance of what lies between two values.
func near(before, after, v pmapi.Value, tolerance float64) bool {
	lo, errLo := before.Float64()
	hi, errHi := after.Float64()
	f, err := v.Float64()
	if err != nil || errLo != nil || errHi != nil {
		return v.String() == before.String() || v.String() == after.String()
	}
	if math.IsNaN(f) {
		return math.IsNaN(lo) || math.IsNaN(hi)
	}
	if f == lo || f == hi { // infinite ones, too
		return true
	}
	if lo > hi {
		lo, hi = hi, lo
	}
	within := tolerance * max(math.Abs(lo), math.Abs(hi), math.Abs(f))
	return f >= lo-within && f <= hi+within
}

// Print writes a report for people.
func Print(w io.Writer, r *Report) error {
	p := table.New(w)
	if len(r.Differences) > 0 {
		p.Line("METRIC\tDIFFERENCE\tA\tB")
	}
	kinds := make(map[string]int)
	for _, d := range r.Differences {
		kinds[d.What]++
		p.Line("%s\t%s\t%s\t%s", metrics.Selection{Name: d.Name, Instance: d.Instance}.String(), d.What, short(d.A), short(d.B))
	}
	p.Flush()
	if len(r.Differences) > 0 {
		p.Line("")
	}
	p.Line("A is %s", r.A)
	p.Line("B is %s", r.B)
	text := fmt.Sprintf("%d metrics and %d values of both compared, ", r.Metrics, r.Values)
	if len(kinds) == 0 {
		text += "no differences"
	}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s: %d", kind, kinds[kind])
	}
	p.Line("%s", text)
	return p.Flush()
}

// short cuts a text to what fits into a column.
func short(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}
