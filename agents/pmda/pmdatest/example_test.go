package pmdatest_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// This is a test of an agent that reads a file of the kernel. The test gives the
// agent a file of its own.
func Example() {
	testLoad := func(t *testing.T) { // in the package: func TestLoad(t *testing.T)
		root := pmdatest.Tree(t, map[string]string{"proc/loadavg": "0.25 0.10 0.05 1/100 4321\n"})
		metrics := []pmda.Metric{{
			Cluster: 0, Item: 0, Name: "load.tasks",
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				text, err := os.ReadFile(filepath.Join(root, "proc/loadavg"))
				if err != nil {
					return err
				}
				_, tasks, _ := strings.Cut(strings.Fields(string(text))[3], "/")
				n, err := strconv.ParseUint(tasks, 10, 32)
				v.SetUint(n)
				return err
			},
		}}
		a, err := pmda.New(pmda.Config{Name: "load", Domain: 400, Metrics: metrics})
		if err != nil {
			t.Fatal(err)
		}
		h := pmdatest.New(t, 400, a, metrics)
		h.Want(map[string]string{"load.tasks": "100"})
		pmdatest.WriteFile(t, root, "proc/loadavg", "0.25 0.10 0.05 1/101 4321\n")
		h.Want(map[string]string{"load.tasks": "101"})
	}
	_ = testLoad
}
