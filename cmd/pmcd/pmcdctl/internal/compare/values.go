package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// series compares two series of the same metric and instance.
func (c *comparer) series(m *Metric, s, t *Series, moving bool) {
	add := func(what, a, b string) { c.add(m.Name, s.Instance, what, a, b) }
	skip := func(why string) { c.skip(m.Name, s.Instance, why) }
	if moving && !c.r.Together {
		skip(comeAndGo)
		return
	}
	if s.Samples == c.a.Samples && t.Samples < c.b.Samples && !moving {
		add(isGaps, "in all samples", fmt.Sprintf("in %d of %d samples", t.Samples, c.b.Samples))
		return
	}
	if moving && (s.Samples < c.a.Samples || t.Samples < c.b.Samples) {
		skip(comeAndGo)
		return
	}
	switch {
	case strings.Contains(m.Type, "event") || strings.HasPrefix(m.Type, "aggregate"):
		skip(noNumbers)
	case s.Range == nil || t.Range == nil || m.Semantics == "discrete":
		c.texts(s, t, moving, m.Semantics == "discrete", add, skip)
	case m.Semantics == "counter":
		c.counters(m, s, t, add, skip)
	case !c.r.Together:
		if scale := wrongScale(s.Range.Max, t.Range.Min); scale != "" && steady(s.Range) && steady(t.Range) {
			add(isValue, s.Last, t.First+" ("+scale+")")
			return
		}
		skip(elsewhere)
	case !c.near(s.Range, t.Range):
		add(isValue, span(s), span(t))
	}
}

// texts compares values exactly.
func (c *comparer) texts(s, t *Series, moving, discrete bool, add func(what, a, b string), skip func(string)) {
	switch {
	case s.Last == t.First || s.First == t.Last:
	case s.First != s.Last || t.First != t.Last || moving && !discrete: // as the state of a process
		skip(moves)
	case !c.r.Together && !discrete:
		skip(elsewhere)
	default:
		add(isValue, s.Last, t.First)
	}
}

// ofKernel are the domains of PCP's agents whose counters are those of the kernel: they do not
// begin anew when the agent does.
var ofKernel = []string{"3.", "11.", "60.", "95.", "122."}

const (
	wrap   = 1 << 32 // how many numbers a counter of 32 bits has
	busier = 10      // how many times as fast a counter may be at another time
)

func (c *comparer) counters(m *Metric, s, t *Series, add func(what, a, b string), skip func(string)) {
	a, b := s.Range, t.Range
	kernel := slices.ContainsFunc(ofKernel, func(domain string) bool { return strings.HasPrefix(m.PMID, domain) })
	const enough = 100 // below that a few events make half of it
	// A counter of 32 bits that is less than before has wrapped around, unless it would have counted
	// much faster than in a snapshot.
	ra, rb := rate(a, c.a.seconds()), rate(b, c.b.seconds())
	tooFast := func(n, seconds, rate float64) bool { return n > busier*rate*seconds+enough }
	wraps := (m.Type == "32" || m.Type == "u32") && b.First < a.Last &&
		!tooFast(b.First-a.Last+wrap, c.b.Begin.Sub(c.a.End).Seconds(), max(ra, rb))
	switch {
	case b.Drops > a.Drops, b.Wraps > a.Wraps && (ra > 0 || c.r.Together || b.change() > wrap/2) && tooFast(b.change(), c.b.seconds(), ra):
		add(isReset, span(s), span(t))
	case !kernel:
		skip(ownAgent)
	case c.r.Together:
		if !c.near(a, b) {
			add(isValue, span(s), span(t))
			return
		}
		slack := (a.Step + b.Step) / max(c.b.seconds(), 1e-9)
		if min(s.Samples, t.Samples) >= 3 && math.Abs(ra-rb) > c.Tolerance*max(ra, rb)+slack {
			add(isRate, fmt.Sprintf("%.4g/s", ra), fmt.Sprintf("%.4g/s", rb))
		}
	case b.Max < a.Last/2 && a.Last >= enough && !wraps:
		add(isReset, span(s), span(t))
	default:
		if scale := wrongScale(a.Last, b.First); scale != "" && !wraps {
			add(isValue, s.Last, t.First+" ("+scale+")")
			return
		}
		skip(elsewhere + ": only resets and wrong scales are found")
	}
}

// change is what a counter has counted.
func (r *Range) change() float64 { return r.Last - r.First + wrap*float64(r.Wraps) }

func rate(r *Range, seconds float64) float64 { return r.change() / max(seconds, 1e-9) }

// near reports whether two ranges have a number in common, or nearly so. What one of them
// changed by between two samples can lie between the two.
func (c *comparer) near(a, b *Range) bool {
	gap := max(a.Min, b.Min) - min(a.Max, b.Max)
	largest := max(math.Abs(a.Min), math.Abs(a.Max), math.Abs(b.Min), math.Abs(b.Max))
	return gap <= c.Tolerance*largest+a.Step+b.Step
}

func steady(r *Range) bool { return r.Max-r.Min <= 0.1*math.Abs(r.Max) }

// wrongScale returns what b seems to be of a if one of them has the wrong units.
func wrongScale(a, b float64) string {
	if a <= 0 || b <= 0 {
		return ""
	}
	for _, factor := range []float64{1e3, 1 << 10, 1e6, 1 << 20} {
		const about = 1.02
		for _, f := range []struct {
			ratio float64
			text  string
		}{{b / a, "times"}, {a / b, "divided by"}} {
			if f.ratio > factor/about && f.ratio < factor*about && max(a, b) >= 10*factor {
				return fmt.Sprintf("%s %.0f", f.text, factor)
			}
		}
	}
	return ""
}

// span is a series for people.
func span(s *Series) string {
	if s.First == s.Last {
		return s.Last
	}
	return s.First + " to " + s.Last
}
