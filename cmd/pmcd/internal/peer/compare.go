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
	// Auto: the same text. A line that PCP's pmcd does not repeat when it is asked again
	// changes with time. It must be one of C's or have the shape of one.
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
	// A value may be the number of a daemon's port.
	{regexp.MustCompile(`\{port\}`), "N"},
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

// judge compares outputs record by record. cs are outputs of PCP's pmcd for the same
// request. Where they differ from each other, ours may differ, too.
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
	var keys []string // of any answer of PCP's pmcd
	var orders [][]string
	for _, c := range cs {
		k, m := index(cmp.expect(split(c)))
		all, orders = append(all, m), append(orders, k)
		for _, k := range k {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	okeys, oursByKey := index(split(ours))

	var diffs []string
	for _, k := range keys {
		var c []Record
		for _, m := range all {
			if r, ok := m[k]; ok {
				c = append(c, r)
			}
		}
		o, ok := oursByKey[k]
		switch {
		case !ok && (len(c) < len(all) || cmp.policy(c[0].Key) == Set): // it comes and goes
		case !ok:
			diffs = append(diffs, fmt.Sprintf("%q is missing:\n%s", k, indent("C", c[0].Lines)))
		default:
			if why := compareRecords(cmp.policy(o.Key), c, o); why != "" {
				diffs = append(diffs, fmt.Sprintf("%q: %s:\n%s%s", k, why, indent("C   ", c[0].Lines), indent("ours", o.Lines)))
			}
		}
	}
	for _, k := range okeys {
		if !slices.Contains(keys, k) && cmp.policy(oursByKey[k].Key) != Set {
			diffs = append(diffs, fmt.Sprintf("%q is too many:\n%s", k, indent("ours", oursByKey[k].Lines)))
		}
	}
	if len(diffs) > 0 {
		return diffs
	}
	var order string
	for i, m := range all {
		if order = otherOrder(orders[i], m, okeys, oursByKey); order == "" {
			return nil
		}
	}
	return []string{order}
}

// otherOrder says which keys of both sides are not in the same order, or "".
func otherOrder(ckeys []string, c map[string]Record, okeys []string, ours map[string]Record) string {
	common := func(ks []string, m map[string]Record) []string {
		return slices.DeleteFunc(slices.Clone(ks), func(k string) bool { _, ok := m[k]; return !ok })
	}
	a, b := common(ckeys, ours), common(okeys, c)
	for i := range a {
		if a[i] != b[i] {
			return fmt.Sprintf("other order: C has %q where ours has %q", a[i], b[i])
		}
	}
	return ""
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

// compareRecords says what is wrong with record o, or "". cs are those of PCP's pmcd.
func compareRecords(how Policy, cs []Record, o Record) string {
	if how == Presence || slices.ContainsFunc(cs, func(r Record) bool { return slices.Equal(r.Lines, o.Lines) }) {
		return ""
	}
	if how == Auto && slices.ContainsFunc(cs, func(r Record) bool { return len(r.Lines) != len(cs[0].Lines) }) {
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
	// Lines are compared only with those of records that have as many.
	like := slices.DeleteFunc(slices.Clone(cs), func(r Record) bool { return len(r.Lines) != len(o.Lines) })
	if len(like) == 0 {
		return fmt.Sprintf("%d lines and not %d", len(o.Lines), len(cs[0].Lines))
	}
	for i, l := range o.Lines {
		moves := how == Shape && !described.MatchString(l)
		same, alike := false, false
		for _, r := range like {
			moves = moves || r.Lines[i] != like[0].Lines[i]
			same = same || r.Lines[i] == l
			alike = alike || shapeOf(r.Lines[i]) == shapeOf(l)
		}
		switch {
		case same:
		case !moves:
			return fmt.Sprintf("line %d differs", i+1)
		case !alike:
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
