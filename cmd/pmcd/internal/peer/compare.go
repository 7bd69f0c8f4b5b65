package peer

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
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

// Used reports whether a comparison met the difference. A row that none meets
// has outlived its reason.
func (d *Difference) Used() bool { return d.used.Load() }

// Record is a part of a client's output with a name, so that tables can speak
// of it and failures point at it.
type Record struct {
	Key   string
	Lines []string
}

// Comparison is how to compare the outputs of one client.
type Comparison struct {
	Split       func(text string) []Record // nil: Whole
	Rewrite     func(Record) Record        // what is to be compared of a record, if not all; may be nil
	Default     Policy                     // for records without a rule
	Status      int                        // exit status that PCP's pmcd must give; AnyStatus: any
	Must        string                     // what is in the output against PCP's pmcd, or there is nothing to compare
	Rules       []Rule                     // the first that matches counts
	Differences []*Difference
}

// AnyStatus is for clients whose exit status says nothing.
const AnyStatus = -1

// Whole is a split that does not: one record without name.
func Whole(text string) []Record {
	return []Record{{Lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}}
}

// Lines makes each line a record named by its first word.
func Lines(text string) []Record {
	var rs []Record
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, _, _ := strings.Cut(l, " ")
		rs = append(rs, Record{key, []string{l}})
	}
	return rs
}

// pminfo prints the name of a metric (or "InDom: 29.2") at the margin, with or
// without what was asked for behind it. Help text is at the margin as well,
// but seldom is a dotted name alone.
var pminfoHead = regexp.MustCompile(`^(?:Error: )?([A-Za-z]\w*(?:\.\w+)+|InDom: [0-9.]+|[0-9]+\.[0-9]+\.[0-9]+)(?:$|:| PMID: | \[| =| 0x| One-line)`)

// Metrics makes what pminfo prints about one metric a record.
func Metrics(text string) []Record {
	var rs []Record
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := pminfoHead.FindStringSubmatch(l); m != nil {
			rs = append(rs, Record{Key: m[1]})
		} else if rs == nil {
			rs = append(rs, Record{})
		}
		r := &rs[len(rs)-1]
		r.Lines = append(r.Lines, l)
	}
	return rs
}

var shapes = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ \d+:\d+:\d+(\.\d+)?( \d{4})?`), "DATE"},
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
	// Only lines of records that are as long stand for each other.
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

func indent(who string, lines []string) string {
	var b strings.Builder
	for i, l := range lines {
		if i == 40 {
			fmt.Fprintf(&b, "    %s: ... (%d lines)\n", who, len(lines))
			break
		}
		fmt.Fprintf(&b, "    %s: %s\n", who, l)
	}
	return b.String()
}

// Pair is PCP's pmcd and ours, started alike.
type Pair struct {
	C, Ours *Daemon

	// Agents says that agents are compared, PCP's in C and ours in Ours, and
	// not the daemons, which may be the same.
	Agents bool
}

// StartPair starts PCP's pmcd and the one under test.
func StartPair(c Config) (*Pair, error) {
	path, err := UnderTest()
	if err != nil {
		return nil, err
	}
	pc, err := Start(CPmcd, c)
	if err != nil {
		return nil, err
	}
	po, err := Start(path, c)
	if err != nil {
		pc.Stop()
		return nil, err
	}
	return &Pair{C: pc, Ours: po}, nil
}

// Same reports that both are PCP's: what checks the tests and not our daemon.
func (p *Pair) Same() bool { return !p.Agents && p.Ours.Path == CPmcd }

// attempts is how often a comparison is made before a difference counts: the
// load average may change between two looks and change back.
const attempts = 3

// Compare runs a client against both daemons and fails the test if it tells
// them apart.
func (p *Pair) Compare(t *testing.T, tr Transport, c Client, cmp Comparison) {
	t.Helper()
	p.CompareFunc(t, func(d *Daemon) (Output, error) { return d.Run(t.Context(), tr, c) }, cmp)
}

// CompareFunc is Compare for a client that is not a program. Both daemons are
// asked equally often, so that agents which count their requests stay in step.
func (p *Pair) CompareFunc(t *testing.T, ask func(*Daemon) (Output, error), cmp Comparison) {
	t.Helper()
	if p.Same() {
		cmp.Differences = nil
	}
	// Complaints have dates and process ids in them.
	onErr := cmp
	onErr.Split, onErr.Default, onErr.Rules = Whole, Shape, nil
	var stdouts, stderrs, diffs []string
	var c, o Output
	for range attempts {
		var err error
		if c, err = ask(p.C); err != nil {
			t.Fatalf("PCP's pmcd: %v", err)
		}
		if o, err = ask(p.Ours); err != nil {
			t.Fatalf("our pmcd: %v", err)
		}
		if os.Getenv("PMCD_SHOW_PEERS") == "1" {
			t.Logf("%s\n%s", c.Cmd, c)
		}
		// Two daemons that nobody can talk to are alike, too. Now and then
		// PCP's answers a request for processes with PM_ERR_IPC.
		if cmp.Status != AnyStatus && c.Code != cmp.Status {
			diffs = []string{fmt.Sprintf("exit status against PCP's pmcd: %d, not %d\n%s", c.Code, cmp.Status, c)}
			continue
		}
		if !strings.Contains(c.Stdout, cmp.Must) {
			diffs = []string{fmt.Sprintf("no %q against PCP's pmcd\n%s", cmp.Must, c)}
			continue
		}
		stdouts, stderrs = append(stdouts, c.Stdout), append(stderrs, c.Stderr)
		diffs = cmp.judge(stdouts, o.Stdout)
		for _, d := range onErr.judge(stderrs, o.Stderr) {
			diffs = append(diffs, "stderr "+d)
		}
		if o.Code != c.Code {
			diffs = append(diffs, fmt.Sprintf("exit status: C %d, ours %d", c.Code, o.Code))
		}
		if len(diffs) == 0 {
			return
		}
	}
	const most = 30
	n := len(diffs)
	if n > most {
		diffs = append(diffs[:most], "...")
	}
	t.Errorf("%s\n%d differences:\n%s", o.Cmd, n, strings.Join(diffs, "\n"))
}
