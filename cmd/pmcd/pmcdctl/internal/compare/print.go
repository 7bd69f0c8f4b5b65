package compare

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/table"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/metrics"
)

// Print writes a report for people.
func Print(w io.Writer, r *Report) error {
	p := table.New(w)
	kinds := make(map[string]int)
	if len(r.Differences) > 0 {
		p.Line("METRIC\tDIFFERENCE\tA\tB")
		for _, d := range r.Differences {
			kinds[d.What]++
			p.Line("%s\t%s\t%s\t%s", metrics.Selection{Name: d.Name, Instance: d.Instance}.String(), d.What, short(d.A), short(d.B))
		}
		p.Flush()
		p.Line("")
	}
	if len(r.Known) > 0 {
		why := make(map[string][]string)
		for _, d := range r.Known {
			if names := why[d.Why]; !slices.Contains(names, d.Name) {
				why[d.Why] = append(names, d.Name)
			}
		}
		p.Line("Known differences, which do not count:")
		lists(p, why)
	}
	if len(r.Skipped) > 0 {
		p.Line("Not compared:")
		lists(p, r.Skipped)
	}
	p.Line("A is %s%s", r.A, cost(r.Cost[0]))
	p.Line("B is %s%s", r.B, cost(r.Cost[1]))
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

// lists writes names by what they have in common.
func lists(p *table.Printer, lists map[string][]string) {
	for _, what := range slices.Sorted(maps.Keys(lists)) {
		const few = 3
		names := lists[what]
		text := strings.Join(names[:min(len(names), few)], ", ")
		if len(names) > few {
			text += fmt.Sprintf(" and %d more", len(names)-few)
		}
		p.Line("    %s: %s", what, text)
	}
	p.Line("")
}

func cost(c *Cost) string {
	if c == nil {
		return ""
	}
	text := ", which takes " + millis(c.Answer) + " for all"
	if c.Memory > 0 {
		text += fmt.Sprintf(", %s and %s with its agents", percent(c.CPU), mb(c.Memory))
	}
	return text
}

// short cuts a text to what fits into a column.
func short(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return s
}
