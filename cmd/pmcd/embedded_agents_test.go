package main

import (
	"slices"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/embedded"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/pmcdconf"
)

// What is compiled in is without a mistake, and complete: each metric has an
// agent, and each agent is built in.
func TestLoadEmbedded(t *testing.T) {
	e, err := embedded.Load(false)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Conf.Problems) > 0 {
		t.Errorf("pmcd.conf: %v", e.Conf.Problems)
	}
	domains := make(map[int]bool)
	for _, a := range e.Conf.Agents {
		domains[a.Domain] = true
		_, isBuiltin := open.Builtin[a.Entry]
		if a.Kind != pmcdconf.DSO || a.Entry != pmcdconf.PMCDEntry && !isBuiltin {
			t.Errorf("agent %q is not built in: %v", a.Name, a)
		}
		if a.Path != "" {
			t.Errorf("agent %q has a file, %s", a.Name, a.Path)
		}
		if slices.Contains([]string{"trivial", "simple", "txmon", "sample"}, a.Name) {
			t.Errorf("agent %q is a demonstration", a.Name)
		}
		if a.Entry == "trace_init" {
			t.Errorf("agent %q opens a port", a.Name)
		}
	}
	for entry := range e.Names.All("") {
		domain := entry.Domain
		if entry.Domain == 0 {
			domain = entry.PMID.Domain()
		}
		if !domains[domain] {
			t.Errorf("%s is of domain %d, which has no agent", entry.Name, domain)
		}
	}
	if id, _ := e.Names.PMID("pmcd.version"); id.Domain() != 2 {
		t.Errorf("pmcd.version is %v", id)
	}
	if len(e.Labels) == 0 || !e.Labels[0].Optional {
		t.Errorf("labels %v", e.Labels)
	}
}
