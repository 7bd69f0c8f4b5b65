package session

import (
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// Agents are told attributes when they change, and nothing after the end of the
// client.
func TestToldAttrs(t *testing.T) {
	attr := func(value string) []pdu.Attr { return []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte(value)}} }
	var a toldAttrs
	for i, step := range []struct {
		attrs   []pdu.Attr
		changed bool
	}{
		{nil, false}, {attr("a"), true}, {attr("a"), false}, {attr("b"), true}, {append(attr("b"), attr("c")...), true},
		{nil, true}, {attr(""), true}, {attr(""), false},
	} {
		if got := a.replace(step.attrs); got != step.changed {
			t.Errorf("step %d: changed is %v", i, got)
		}
	}
	if !a.close() || !a.closed {
		t.Error("the client has disconnected: not closed, or no agent was told anything")
	}
	if new(toldAttrs).close() {
		t.Error("agents were told of a client without attributes")
	}
}

// A domainSet has what was added, also at its ends.
func TestDomainSet(t *testing.T) {
	var d domainSet
	in := map[int]bool{0: true, 63: true, 64: true, 511: true}
	for domain := range in {
		d.add(domain)
	}
	for domain := range 512 {
		if d.has(domain) != in[domain] {
			t.Errorf("%d: %v", domain, d.has(domain))
		}
	}
}
