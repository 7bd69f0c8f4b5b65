package peer

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
)

// Policy says how the records of two outputs are compared.
type Policy int

const (
	// Auto: the same text. A line that PCP's own pmcd does not repeat when it
	// is asked again changes with time, and only its shape is compared.
	Auto Policy = iota
	// Shape: the same text with all numbers taken for equal, but for those
	// that describe the metric.
	Shape
	// Set: instances come and go between two looks. No line may have a shape,
	// names of instances aside, that PCP's pmcd did not show too.
	Set
	// Presence: the record is there on both sides, whatever it says.
	Presence
)

// Rule is a row of a table: records that cannot be the same in two daemons
// that both work as they should.
type Rule struct {
	Key *regexp.Regexp // of the record: see Split
	How Policy
	Why string
}

// Difference is a row of a table: a place where our daemon differs from PCP's
// 6.0.3 on purpose. Where PCP's pmcd says C, ours must say Ours.
type Difference struct {
	Key     *regexp.Regexp // of the record
	C, Ours string
	Why     string

	used atomic.Bool
}

// Used reports whether a comparison met the difference. A row that none meets can be
// removed.
func (d *Difference) Used() bool { return d.used.Load() }

// Comparison is how to compare the outputs of one client.
type Comparison struct {
	Split       func(text string) []Record // nil: Whole
	Rewrite     func(Record) Record        // what is to be compared of a record, if not all; may be nil
	Default     Policy                     // for records without a rule
	Status      int                        // exit status that PCP's pmcd must give; AnyStatus: any
	Must        string                     // what is in the output against PCP's pmcd, or there is nothing to compare
	Rules       []Rule                     // the first that matches counts
	Void        string                     // on stderr of either side: the attempt does not count, for the host has changed under the client; "": none
	Differences []*Difference
}

// AnyStatus is for clients whose exit status says nothing.
const AnyStatus = -1

var shapes = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ \d+:\d+:\d+(\.\d+)?( \d{4})?`), "DATE"},
	// A number may have so many decimals that they look like a hash.
	{regexp.MustCompile(`[-+]?\b\d+(\.\d+)+([eE][-+]?\d+)?[kmgtKMGT]?\b`), "N"},
	{regexp.MustCompile(`\b(0x)?[0-9a-f]{16,}\b`), "HEX"}, // hashes, aggregates
	{regexp.MustCompile(`\b0x[0-9a-f]+\b`), "N"},
	// A number and its scale, for what a client prints in the unit that fits.
	{regexp.MustCompile(`[-+]?\b\d+(\.\d+)*([eE][-+]?\d+)?[kmgtKMGT]?\b`), "N"},
	{regexp.MustCompile(`[ \t]+`), " "}, // columns move with the width of numbers
}

func shapeOf(line string) string {
	for _, s := range shapes {
		line = s.re.ReplaceAllString(line, s.to)
	}
	return strings.TrimSpace(line)
}

// described are the lines of pminfo that say what a metric is.
var described = regexp.MustCompile(`PMID: |^ +(Data Type:|Semantics:|Source:|Series:|labels )`)

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	labels = regexp.MustCompile(`labels \{.*\}`) // each instance can have its own
	runs   = regexp.MustCompile(`(\?N|\bN|\bSTRING)( (\?N|N|STRING))+`)
)

// setOf is the set of shapes of a record's lines, with all strings and all
// lists of values alike.
func setOf(rs ...Record) map[string]bool {
	set := map[string]bool{}
	for _, r := range rs {
		for _, l := range r.Lines {
			l = labels.ReplaceAllString(l, "labels")
			set[runs.ReplaceAllString(shapeOf(quoted.ReplaceAllString(l, "STRING")), "VALUES")] = true
		}
	}
	return set
}

// judge compares two outputs record by record. cs are outputs of PCP's pmcd
// for the same request, the last of them made next to ours.
func (cmp *Comparison) judge(cs []string, ours string) []string {
	split := cmp.Split
	if split == nil {
		split = Whole
	}
	index := func(rs []Record) (keys []string, byKey map[string]Record) {
		byKey, n := map[string]Record{}, map[string]int{}
		for _, r := range rs {
			if cmp.Rewrite != nil {
				r = cmp.Rewrite(r)
			}
			// pminfo names a metric twice when it is asked twice.
			key := r.Key
			if n[r.Key]++; n[r.Key] > 1 {
				key = fmt.Sprintf("%s (%d)", r.Key, n[r.Key])
			}
			keys, byKey[key] = append(keys, key), r
		}
		return keys, byKey
	}
	var all []map[string]Record
	var keys []string
	for _, c := range cs {
		k, m := index(cmp.expect(split(c)))
		all, keys = append(all, m), k
	}
	okeys, oursByKey := index(split(ours))

	var diffs []string
	for _, k := range keys {
		o, ok := oursByKey[k]
		if !ok {
			if cmp.policy(all[len(all)-1][k].Key) != Set {
				diffs = append(diffs, fmt.Sprintf("%q is missing:\n%s", k, indent("C", all[len(all)-1][k].Lines)))
			}
			continue
		}
		var c []Record
		for _, m := range all {
			if r, ok := m[k]; ok {
				c = append(c, r)
			}
		}
		if why := compareRecords(cmp.policy(o.Key), c, o); why != "" {
			diffs = append(diffs, fmt.Sprintf("%q: %s:\n%s%s", k, why, indent("C   ", c[len(c)-1].Lines), indent("ours", o.Lines)))
		}
	}
	for _, k := range okeys {
		if _, ok := all[len(all)-1][k]; !ok && cmp.policy(oursByKey[k].Key) != Set {
			diffs = append(diffs, fmt.Sprintf("%q is too many:\n%s", k, indent("ours", oursByKey[k].Lines)))
		}
	}
	if len(diffs) == 0 {
		common := func(ks []string, m map[string]Record) []string {
			return slices.DeleteFunc(slices.Clone(ks), func(k string) bool { _, ok := m[k]; return !ok })
		}
		a, b := common(keys, oursByKey), common(okeys, all[len(all)-1])
		for i := range a {
			if a[i] != b[i] {
				return []string{fmt.Sprintf("other order: C has %q where ours has %q", a[i], b[i])}
			}
		}
	}
	return diffs
}

func (cmp *Comparison) policy(key string) Policy {
	for _, r := range cmp.Rules {
		if r.Key.MatchString(key) {
			return r.How
		}
	}
	return cmp.Default
}

// expect turns what PCP's pmcd says into what ours must say.
func (cmp *Comparison) expect(rs []Record) []Record {
	for _, d := range cmp.Differences {
		for i, r := range rs {
			if !d.Key.MatchString(r.Key) {
				continue
			}
			old := strings.Join(r.Lines, "\n")
			if text := strings.ReplaceAll(old, d.C, d.Ours); text != old {
				d.used.Store(true)
				rs[i].Lines = strings.Split(text, "\n")
			}
		}
	}
	return rs
}

// compareRecords says what is wrong with record o, or "". The last of cs was
// made next to it.
func compareRecords(how Policy, cs []Record, o Record) string {
	c := cs[len(cs)-1]
	if slices.Equal(c.Lines, o.Lines) || how == Presence {
		return ""
	}
	if how == Auto && slices.ContainsFunc(cs, func(r Record) bool { return len(r.Lines) != len(c.Lines) }) {
		how = Set
	}
	if how == Set {
		allowed, got := setOf(cs...), setOf(o)
		if len(got) == 0 {
			return "nothing there"
		}
		for s := range got {
			if !allowed[s] {
				return fmt.Sprintf("no line of C's has the shape %q", s)
			}
		}
		return ""
	}
	if len(c.Lines) != len(o.Lines) {
		return fmt.Sprintf("%d lines and not %d", len(o.Lines), len(c.Lines))
	}
	// Lines are compared only with those of records that have as many.
	cs = slices.DeleteFunc(slices.Clone(cs), func(r Record) bool { return len(r.Lines) != len(o.Lines) })
	for i, l := range o.Lines {
		if l == c.Lines[i] {
			continue
		}
		moves := how == Shape && !described.MatchString(l)
		for _, r := range cs {
			moves = moves || r.Lines[i] != c.Lines[i]
		}
		if !moves {
			return fmt.Sprintf("line %d differs", i+1)
		}
		if !slices.ContainsFunc(cs, func(r Record) bool { return shapeOf(r.Lines[i]) == shapeOf(l) }) {
			return fmt.Sprintf("line %d differs in shape", i+1)
		}
	}
	return ""
}

func indent(label string, lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i == 40 {
			fmt.Fprintf(&b, "    %s: ... (%d lines)\n", label, len(lines))
			break
		}
		fmt.Fprintf(&b, "    %s: %s\n", label, l)
	}
	return b.String()
}
