package pmda_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// ask returns the label sets of one kind, each as "inst JSON flags".
func ask(t *testing.T, tr transport.Transport, kind pdu.LabelKind, ident uint32) string {
	t.Helper()
	var reply pdu.Labels
	if err := transporttest.Do(tr, agents.Origin{}, &pdu.LabelReq{Kind: kind, Ident: ident}, &reply); err != nil {
		return err.Error()
	}
	var list []string
	for _, s := range reply.Sets {
		var flags []string
		for _, l := range s.Labels {
			flags = append(flags, fmt.Sprintf("%x", l.Flags))
		}
		list = append(list, fmt.Sprintf("%d %s %s", s.Inst, s.JSON, strings.Join(flags, ",")))
	}
	return strings.Join(list, "; ")
}

// Labels are those of the tables. A failure of InstLabels is
// logged, and does not affect other instances.
func TestLabels(t *testing.T) {
	dom := &pmda.InDom{Serial: 2, Insts: pmda.List{{ID: 4, Name: "x"}, {ID: 5, Name: "y"}, {ID: 6, Name: "bad"}},
		Labels: pmda.Labels{"what": "<things>"},
		InstLabels: func(_ context.Context, _ *pmda.Request, inst pdu.Inst) (pmda.Labels, error) {
			switch inst.Name {
			case "x":
				return pmda.Labels{"number": inst.ID}, nil
			case "bad":
				return nil, errors.New("no idea")
			}
			return nil, nil
		}}
	m := row(0, nil)
	m.InDom, m.Labels = dom, pmda.Labels{"b": []int{1, 2}, "a": pmda.OptionalLabel{Value: true}, "c": nil}
	c := pmda.Config{
		Name:     "things",
		Metrics:  []pmda.Metric{m, row(1, nil)},
		InDoms:   []*pmda.InDom{{Serial: 3, Insts: pmda.List{{ID: 7, Name: "bare"}}}},
		Clusters: []pmda.Cluster{{Cluster: 0, Labels: pmda.Labels{"deep": 1.5}}},
	}
	indom := uint32(pdu.NewInDom(domain, 2))
	tr, log := start(t, c)
	for _, tt := range []struct {
		kind  pdu.LabelKind
		ident uint32
		want  string
	}{
		{pdu.LabelDomain, domain, `-1 {"agent":"things"} 2`},
		{pdu.LabelCluster, uint32(id(0, 0)), `-1 {"deep":1.5} 8`},
		{pdu.LabelCluster, uint32(id(1, 0)), ``},
		{pdu.LabelItem, uint32(id(0, 0)), `-1 {"a":true,"b":[1,2],"c":null} 90,10,10`},
		{pdu.LabelItem, uint32(id(0, 1)), ``},
		{pdu.LabelItem, uint32(id(9, 9)), ``},
		{pdu.LabelInDom, indom, `-1 {"what":"<things>"} 4`},
		{pdu.LabelInDom, indom + 1, ``},
		{pdu.LabelInDom, indom + 2, ``},
		{pdu.LabelInstances, indom, `4 {"number":4} 20; 5  ; 6  `},
		{pdu.LabelInstances, indom + 1, `7  `},
		{pdu.LabelInstances, indom + 2, ``},
	} {
		t.Run(fmt.Sprint(tt.kind, tt.ident), func(t *testing.T) {
			if got := ask(t, tr, tt.kind, tt.ident); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if !strings.Contains(log.String(), "labels of instances of 400.2: bad: no idea") {
		t.Errorf("log: %s", log)
	}

	c.Labels = pmda.Labels{"role": "testing", "level": 1}
	tr, _ = start(t, c)
	if got, want := ask(t, tr, pdu.LabelDomain, domain), `-1 {"level":1,"role":"testing"} 2,2`; got != want {
		t.Errorf("domain: %q, want %q", got, want)
	}
}
