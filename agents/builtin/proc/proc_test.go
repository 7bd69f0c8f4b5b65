package proc

import (
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestTables(t *testing.T) {
	r := newHarness(t, Options{Root: composedTree(t)})
	if len(r.Metrics) < 150 {
		t.Errorf("%d metrics", len(r.Metrics))
	}
	a, err := Open(3, Options{Root: r.host.Root, AccessConf: "none", HotConf: "none"})
	if err != nil {
		t.Fatal(err)
	}
	r.CheckNamesAndHelp("../../../etc/root", a)
}

// The names below dynamic come from the agent, because PCP's PMNS does not have them.
func TestDynamicNames(t *testing.T) {
	r := newHarness(t, Options{Root: composedTree(t)})
	namer := r.Agent.(agents.Namer)
	for _, top := range []string{"proc", "hotproc"} {
		for _, part := range dynamic {
			if top+"."+part == "hotproc.numa_maps" { // PCP does not have it
				continue
			}
			below, err := namer.Traverse(t.Context(), agents.Origin{}, top+"."+part)
			if err != nil || len(below) == 0 {
				t.Errorf("%s.%s has %d names, %v", top, part, len(below), err)
			}
			for _, name := range below {
				if id, err := namer.PMID(t.Context(), agents.Origin{}, name); id != r.ID(name) || err != nil {
					t.Errorf("%s is %v, %v", name, id, err)
				}
			}
		}
	}
}

func TestAgent(t *testing.T) {
	r := newHarness(t, Options{Root: composedTree(t)})
	r.CheckAgent()
}

// With an empty /proc there are no values of processes, and counts are 0.
func TestEmptyProc(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{"proc/": ""})})
	for name, m := range r.Metrics {
		if got := r.Values(name); m.InDom != nil && got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
	r.Want(map[string]string{"proc.nprocs": "0", "proc.runq.runnable": "0", "proc.autogroup.enabled": "0"})
}
