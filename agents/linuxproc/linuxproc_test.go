package linuxproc

import (
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// The name space has the metrics of the tables, and all have help texts.
func TestTables(t *testing.T) {
	tree, err := pmnsload.Load("../../etc/root", pmnsload.Options{Preprocess: true, Unique: true, Shell: pmnsload.NoShell})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Root: composed(t)})
	names := map[string]pdu.PMID{}
	for e := range tree.All("") {
		if e.PMID.Domain() == 3 {
			names[e.Name] = e.PMID
		}
	}
	for name := range r.metrics {
		if names[name] != r.id(name) {
			t.Errorf("%s is %v in the name space, %v in the tables", name, names[name], r.id(name))
		}
	}
	if len(names) != len(r.metrics) || len(names) < 150 {
		t.Errorf("%d names, %d metrics", len(names), len(r.metrics))
	}
	// In PCP's name space some have to come from the agent.
	namer := r.agent.(agents.Namer)
	for _, top := range []string{"proc", "hotproc"} {
		for _, part := range dynamic {
			below, err := namer.Traverse(t.Context(), agents.Origin{}, top+"."+part)
			if err != nil || len(below) == 0 {
				t.Errorf("%s.%s has %d names, %v", top, part, len(below), err)
			}
			for _, name := range below {
				if id, err := namer.PMID(t.Context(), agents.Origin{}, name); id != names[name] || err != nil {
					t.Errorf("%s is %v, %v", name, id, err)
				}
			}
		}
	}
	a, err := Open(3, Options{Root: r.host.Root, AccessConf: "none", HotConf: "none"})
	if err != nil {
		t.Fatal(err)
	}
	texter := a.(agents.Texter)
	for name, m := range r.metrics {
		if text, err := texter.Text(t.Context(), agents.Origin{}, r.id(name), true); err != nil || len(text) > 80 {
			t.Errorf("help of %s: %q, %v", name, text, err)
		}
		if m.InDom == nil {
			continue
		}
		if text, err := texter.InDomText(t.Context(), agents.Origin{}, pdu.NewInDom(3, m.InDom.Serial), true); err != nil || len(text) > 80 {
			t.Errorf("help of indom %d: %q, %v", m.InDom.Serial, text, err)
		}
	}
}

func TestAgent(t *testing.T) {
	r := newRig(t, Options{Root: composed(t)})
	var ids []pdu.PMID
	for name := range r.metrics {
		ids = append(ids, r.id(name))
	}
	agenttest.Test(t, r.conduit, ids...)
}

// A host without any of the files has no processes, and no errors but where a
// directory of processes is missing.
func TestNothingThere(t *testing.T) {
	r := newRig(t, Options{Root: newTree(t, map[string]string{"proc/": ""})})
	for name, m := range r.metrics {
		if got := r.fetch(name); m.InDom != nil && got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
	r.want(map[string]string{"proc.nprocs": "0", "proc.runq.runnable": "0", "proc.autogroup.enabled": "0"})
}
