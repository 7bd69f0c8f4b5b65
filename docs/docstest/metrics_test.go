package docstest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/linux"
	"github.com/gopcp/pmcd/pmnsload"
)

// namespace returns the compiled-in name space, and its metrics by their names in Prometheus.
func namespace(t *testing.T) (*pmnsload.Tree, map[string]pmnsload.Entry) {
	t.Helper()
	tree, err := pmnsload.Parse("etc/root", strings.NewReader(read(t, "etc/root")), pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]pmnsload.Entry)
	for e := range tree.All("") {
		if e.Kind == pmnsload.Leaf {
			metrics[strings.ReplaceAll(e.Name, ".", "_")] = e
		}
	}
	return tree, metrics
}

// Documents say how many metrics are served, in hundreds.
func TestNumberOfMetrics(t *testing.T) {
	tree, _ := namespace(t)
	for document, pattern := range map[string]string{
		"README.md":             `more than (\d),(\d00) metrics`,
		"docs/comparison.md":    `more than (\d),(\d00) names`,
		"docs/node-exporter.md": `of more than (\d),(\d00)\.`,
	} {
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(t, document))
		if m == nil {
			t.Errorf("%s does not have %q", document, pattern)
			continue
		}
		if n, _ := strconv.Atoi(m[1] + m[2]); n != tree.Len()/100*100 {
			t.Errorf("%s says %q, the name space has %d", document, m[0], tree.Len())
		}
	}
}

var (
	series  = regexp.MustCompile(`\b[a-z]\w*_\w+`)
	factors = map[string]string{"Kbyte": "* 1024", "millisec": "/ 1000", "microsec": "/ 1e6"} // by unit
)

// The metrics that docs/node-exporter.md puts beside those of node_exporter exist. Those of
// the first table are served by default, with the factor that their units need, and those of
// the second with the argument.
func TestNodeExporter(t *testing.T) {
	_, metrics := namespace(t)
	_, defaults, _ := strings.Cut(read(t, "cmd/pmcd/pmcd-prometheus/main.go"), "var defaultMetrics = strings.Fields(`")
	defaults, _, _ = strings.Cut(defaults, "`)")
	within := func(name, nodes string) bool {
		for node := range strings.FieldsSeq(nodes) {
			if name == node || strings.HasPrefix(name, node+".") {
				return true
			}
		}
		return false
	}
	agent, err := linux.Open(60, linux.Options{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	byDefault, withArgument := 0, 0
	inFirst := false
	for line := range strings.Lines(read(t, "docs/node-exporter.md")) {
		if strings.HasPrefix(line, "| node_exporter |") {
			inFirst = strings.Contains(line, "to get the same")
		}
		cells := strings.Split(line, " | ")
		if len(cells) != 3 || !strings.Contains(line, "node_") && !strings.Contains(line, "count of") {
			continue
		}
		last := strings.TrimSpace(strings.TrimRight(cells[2], "|\n "))
		for _, name := range series.FindAllString(cells[1], -1) {
			e, ok := metrics[name]
			if !ok {
				t.Errorf("no metric is %s", name)
				continue
			}
			if served := within(e.Name, defaults); served != inFirst {
				t.Errorf("%s is served by default: %v", name, served)
			}
			if !inFirst {
				withArgument++
				if !within(e.Name, last) {
					t.Errorf("%s is not served with the argument %q", name, last)
				}
				continue
			}
			byDefault++
			desc, err := agent.Desc(t.Context(), agents.Origin{}, e.PMID)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if want := factors[desc.Units.String()]; last != want {
				t.Errorf("%s is in %v; the factor is %q, not %q", name, desc.Units, want, last)
			}
		}
	}
	if byDefault < 80 || withArgument < 10 {
		t.Errorf("only %d and %d metrics were found", byDefault, withArgument)
	}
}
