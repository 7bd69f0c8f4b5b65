package peer

import (
	"regexp"
	"strings"
	"testing"
)

const pminfoText = `
sample.bin PMID: 29.0.6 [Several constant instances]
    Data Type: 32-bit int  InDom: 29.2 0x7400002
    inst [100 or "bin-100"] value 100
    inst [200 or "bin-200"] value 200

sample.seconds PMID: 29.0.2 [Elapsed time (seconds)]
    Data Type: 32-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff
    value 17
kvm.exits: pmLookupDesc: Unknown or illegal metric identifier
Error: no.such: Unknown metric name
`

func TestMetricsAreNamed(t *testing.T) {
	var keys []string
	for _, r := range Metrics(pminfoText) {
		keys = append(keys, r.Key)
	}
	if got, want := strings.Join(keys, " "), " sample.bin sample.seconds kvm.exits no.such"; got != want {
		t.Errorf("keys %q, want %q", got, want)
	}
}

// A comparison that cannot fail is worth nothing, so most of these must.
func TestJudge(t *testing.T) {
	anchored := func(s string) *regexp.Regexp { return regexp.MustCompile(`^(` + s + `)$`) }
	replace := func(old, new string) string {
		if !strings.Contains(pminfoText, old) {
			t.Fatalf("no %q in the text", old)
		}
		return strings.Replace(pminfoText, old, new, 1)
	}
	later := replace("value 17", "value 18")
	moving := []Rule{{Key: anchored(`sample\.seconds`), How: Shape}}
	for _, c := range []struct {
		name  string
		cs    []string
		ours  string
		rules []Rule
		diffs []*Difference
		want  string // in the first difference; empty: none
	}{
		{name: "same", cs: []string{pminfoText}, ours: pminfoText},
		{name: "value", cs: []string{pminfoText}, ours: replace("value 100", "value 101"), want: `"sample.bin": line 3 differs`},
		{name: "value where C does not change", cs: []string{pminfoText, later}, ours: strings.Replace(later, "value 100", "value 101", 1), want: `"sample.bin": line 3 differs`},
		{name: "value where C changes", cs: []string{pminfoText, later}, ours: replace("value 17", "value 19")},
		{name: "kind of value where C changes", cs: []string{pminfoText, later}, ours: replace("value 17", `value "x"`), want: "differs in shape"},
		{name: "value with a rule", cs: []string{pminfoText}, ours: later, rules: moving},
		{name: "description with a rule", cs: []string{pminfoText}, ours: replace("29.0.2 ", "29.0.3 "), rules: moving, want: "line 1 differs"},
		{name: "error with a rule", cs: []string{pminfoText}, ours: replace("    value 17", "Error: Try again"), rules: moving, want: "differs in shape"},
		{name: "value with a rule where C had fewer lines before", cs: []string{
			replace("    Data Type: 32-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff\n", ""), pminfoText,
		}, ours: later, rules: moving},
		{name: "value where C changes and changes back", cs: []string{pminfoText, later, pminfoText}, ours: replace("value 17", "value 19")},
		{name: "metric that comes and goes", cs: []string{pminfoText + "kvm.more: pmLookupDesc: x\n", pminfoText}, ours: pminfoText},
		{name: "metric that came and went", cs: []string{pminfoText, pminfoText + "kvm.more: pmLookupDesc: x\n", pminfoText}, ours: pminfoText + "kvm.more: pmLookupDesc: x\n"},
		{name: "instance missing", cs: []string{pminfoText}, ours: replace("    inst [200 or \"bin-200\"] value 200\n", ""), want: "lines and not"},
		{name: "instance missing from a set", cs: []string{pminfoText}, ours: replace("    inst [200 or \"bin-200\"] value 200\n", ""),
			rules: []Rule{{Key: anchored(`sample\.bin`), How: Set}}},
		{name: "no instance in a set", cs: []string{pminfoText}, ours: replace("    inst [200 or \"bin-200\"] value 200\n", "No value(s) available!\n"),
			rules: []Rule{{Key: anchored(`sample\.bin`), How: Set}}, want: "no line of C's"},
		{name: "metric missing", cs: []string{pminfoText}, ours: replace("kvm.exits: pmLookupDesc: Unknown or illegal metric identifier\n", ""), want: `"kvm.exits" is missing`},
		{name: "metric too many", cs: []string{pminfoText}, ours: pminfoText + "kvm.more: pmLookupDesc: x\n", want: `"kvm.more" is too many`},
		{name: "error text", cs: []string{pminfoText}, ours: replace("Unknown metric name", "No PMCD agent"), want: `"no.such": line 1 differs`},
		{name: "order", cs: []string{"a.b\nc.d\n"}, ours: "c.d\na.b\n", want: "other order"},
		{name: "nothing", cs: []string{pminfoText}, ours: "", want: "is missing"},
		{name: "difference in the table", cs: []string{pminfoText}, ours: replace("Elapsed time", "Time"),
			diffs: []*Difference{{Key: anchored(`sample\.seconds`), C: "Elapsed time", Ours: "Time"}}},
		{name: "difference in the table that is gone", cs: []string{pminfoText}, ours: pminfoText,
			diffs: []*Difference{{Key: anchored(`sample\.seconds`), C: "Elapsed time", Ours: "Time"}}, want: "line 1 differs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmp := Comparison{Split: Metrics, Rules: c.rules, Differences: c.diffs}
			got := strings.Join(cmp.judge(c.cs, c.ours), "\n")
			first, _, _ := strings.Cut(got, "\n")
			if !strings.Contains(first, c.want) || (c.want == "" && got != "") {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, d := range c.diffs {
				if !d.Used() {
					t.Error("the difference does not count as met")
				}
			}
		})
	}
}

// Our first answer counts: a right one later does not make up for it. It is excused where
// PCP's pmcd does not repeat itself.
func TestFirstAnswerCounts(t *testing.T) {
	for _, c := range []struct {
		name    string
		c, ours []string // answers; the last one is repeated
		same    bool
	}{
		{"the same", []string{"a"}, []string{"a"}, true},
		{"wrong once", []string{"a"}, []string{"b", "a"}, false},
		{"wrong later", []string{"a"}, []string{"a", "b"}, true},
		{"C changes before us", []string{"a", "b"}, []string{"b"}, true},
		{"C changes, ours is neither", []string{"n 1", "n 2"}, []string{"n 3"}, true},
		{"C changes, ours is something else", []string{"n 1", "n 2"}, []string{"other"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers := func(texts []string) func() (Output, error) {
				return func() (Output, error) {
					text := texts[0]
					texts = texts[min(1, len(texts)-1):]
					return Output{Stdout: text}, nil
				}
			}
			_, diffs, err := Comparison{}.ask(t.Logf, answers(c.c), answers(c.ours))
			if err != nil || (len(diffs) == 0) != c.same {
				t.Errorf("got %q, %v", diffs, err)
			}
		})
	}
}

func TestShapeOf(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"    value 17", "value N"},
		{"    value -1.5e+10", "value N"},
		{`    inst [0 or "cpu0"] value {port}`, `inst [N or "cpu0"] value N`},
		{`  inst [3 or "cpu3"] value 0.25`, `inst [N or "cpu3"] value N`},
		{"Sat Nov 21 13:36:43 2026: x", "DATE: x"},
		{"series a6239ef0654629c81b75b5542a2e51b44c2f1b5e", "series HEX"},
		{" 0 23729m   3512 137440", "N N N N"},
		{"pmcd.pid 1 4711", "pmcd.pid N N"},
		{"simple.time.sys 1 0.07000000000000001", "simple.time.sys N N"},
		{"at 192.0.2.1, version 6.0.3", "at N, version N"},
	} {
		if got := shapeOf(c.line); got != c.want {
			t.Errorf("shapeOf(%q) = %q, want %q", c.line, got, c.want)
		}
	}
}
