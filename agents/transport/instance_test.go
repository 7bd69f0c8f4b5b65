package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// loads has instances with names of several words.
type loads struct{ *answer }

func (loads) Instances(context.Context, agents.Origin, pdu.InDom) ([]pdu.Inst, error) {
	return []pdu.Inst{{ID: 10, Name: "15 minute"}, {ID: 11, Name: "1 minute"}, {ID: 12, Name: "5 minute"}, {ID: 13, Name: "5"}, {ID: 14, Name: "1 hour"}}, nil
}

// Names are looked up as pmdaInstance(3) does: the first word will do.
func TestLookupOfInstances(t *testing.T) {
	tr := transport.Inline(loads{newAnswer()})
	defer tr.Close()
	for _, tt := range []struct {
		id   int32
		name string
		want pdu.Inst
		err  error
	}{
		{pdu.NoInst, "15 minute", pdu.Inst{ID: 10}, nil},
		{pdu.NoInst, "15", pdu.Inst{ID: 10}, nil},
		{pdu.NoInst, "1", pdu.Inst{ID: 11}, nil}, // the first of two
		{pdu.NoInst, "1 hour", pdu.Inst{ID: 14}, nil},
		{pdu.NoInst, "5", pdu.Inst{ID: 13}, nil}, // exactly, behind another
		{pdu.NoInst, "1 ", pdu.Inst{}, pdu.ErrnoInst},
		{pdu.NoInst, "1 m", pdu.Inst{}, pdu.ErrnoInst},
		{pdu.NoInst, "minute", pdu.Inst{}, pdu.ErrnoInst},
		{12, "", pdu.Inst{ID: pdu.NoInst, Name: "5 minute"}, nil},
		{99, "", pdu.Inst{}, pdu.ErrnoInst},
		{12, "5", pdu.Inst{}, pdu.ErrnoInst}, // not both
	} {
		t.Run(fmt.Sprintf("%d %s", tt.id, tt.name), func(t *testing.T) {
			var reply pdu.Instance
			err := agenttest.Do(tr, agents.Origin{}, &pdu.InstanceReq{Inst: tt.id, Name: tt.name}, &reply)
			if !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			} else if err == nil && (len(reply.Insts) != 1 || reply.Insts[0] != tt.want) {
				t.Errorf("%v, want %v", reply.Insts, tt.want)
			}
		})
	}
}

// Labels are of those instances that the client wants.
func TestLabelsOfInstances(t *testing.T) {
	agent := &agenttest.Agent{Domain: 70}
	indom := pdu.NewInDom(agent.Domain, 0)
	all, err := agent.Labels(t.Context(), agents.Origin{}, pdu.LabelInstances, uint32(indom))
	if err != nil || len(all) < 2 {
		t.Fatalf("all: %v, %v", all, err)
	}
	first := []int32{all[0].Inst}
	tr := transport.Inline(agent)
	defer tr.Close()
	for _, tt := range []struct {
		name    string
		profile *pdu.Profile
		want    []pdu.LabelSet
	}{
		{"no profile", nil, all},
		{"all", new(pdu.Profile), all},
		{"none", &pdu.Profile{Exclude: true}, nil},
		{"one", &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Exclude: true, Insts: first}}}, all[:1]},
		{"all but one", &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom, Insts: first}}}, all[1:]},
		{"of another domain", &pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: indom + 1, Exclude: true}}}, all},
	} {
		req, err := pdu.Append(nil, 0, &pdu.LabelReq{Ident: uint32(indom), Kind: pdu.LabelInstances})
		if err != nil {
			t.Fatal(err)
		}
		call := transport.Call{Profile: tt.profile, Req: req}
		var r pdu.Labels
		b, err := transport.Do(tr, &call, nil)
		if err == nil {
			_, err = pdu.ParseInto(b, &r)
		}
		if err != nil || !slices.EqualFunc(r.Sets, tt.want, func(a, b pdu.LabelSet) bool { return a.Inst == b.Inst && bytes.Equal(a.JSON, b.JSON) }) {
			t.Errorf("%s: %v, %v, want %v", tt.name, r.Sets, err, tt.want)
		}
	}
}
