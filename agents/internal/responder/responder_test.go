package responder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/internal/responder"
	"github.com/gopcp/pmcd/agents/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// do has r answer req, and decodes the reply into reply. It returns the code of an
// ERROR PDU as an error.
func do(t *testing.T, r *responder.Responder, p *pdu.Profile, req, reply pdu.Message) error {
	t.Helper()
	b, err := pdu.Append(nil, 0, req)
	if err == nil {
		b, err = r.Reply(t.Context(), responder.Request{Profile: p, PDU: b}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, typ, _ := pdu.Header(b); typ == pdu.TypeError {
		var e pdu.Error
		if _, err := pdu.ParseInto(b, &e); err != nil {
			t.Fatal(err)
		}
		return e.Code
	}
	if _, err := pdu.ParseInto(b, reply); err != nil {
		t.Fatal(err)
	}
	return nil
}

// loads has instances with names of several words.
type loads struct{ agents.Agent }

func (loads) Instances(context.Context, agents.Origin, pdu.InDom) ([]pdu.Inst, error) {
	return []pdu.Inst{{ID: 10, Name: "15 minute"}, {ID: 11, Name: "1 minute"}, {ID: 12, Name: "5 minute"}, {ID: 13, Name: "5"}, {ID: 14, Name: "1 hour"}}, nil
}

// Names are looked up as pmdaInstance(3) does: the first word will do.
func TestLookupOfInstances(t *testing.T) {
	r := responder.Responder{Agent: loads{}}
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
			err := do(t, &r, nil, &pdu.InstanceReq{Inst: tt.id, Name: tt.name}, &reply)
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
	agent := &transporttest.Agent{Domain: 70}
	indom := pdu.NewInDom(agent.Domain, 0)
	all, err := agent.Labels(t.Context(), agents.Origin{}, pdu.LabelInstances, uint32(indom))
	if err != nil || len(all) < 2 {
		t.Fatalf("all: %v, %v", all, err)
	}
	first := []int32{all[0].Inst}
	r := responder.Responder{Agent: agent}
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
		var reply pdu.Labels
		err := do(t, &r, tt.profile, &pdu.LabelReq{Ident: uint32(indom), Kind: pdu.LabelInstances}, &reply)
		if err != nil || !slices.EqualFunc(reply.Sets, tt.want, func(a, b pdu.LabelSet) bool { return a.Inst == b.Inst && bytes.Equal(a.JSON, b.JSON) }) {
			t.Errorf("%s: %v, %v, want %v", tt.name, reply.Sets, err, tt.want)
		}
	}
}

// A reply of any type has a limit.
func TestLongestReply(t *testing.T) {
	r := responder.Responder{Agent: loads{}, Max: 60}
	var reply pdu.Instance
	if err := do(t, &r, nil, &pdu.InstanceReq{Inst: pdu.NoInst, Name: "15"}, &reply); err != nil {
		t.Error(err)
	}
	if err := do(t, &r, nil, &pdu.InstanceReq{Inst: pdu.NoInst}, &reply); err != error(pdu.ErrnoTooBig) {
		t.Errorf("all instances: %v, want %v", err, pdu.ErrnoTooBig)
	}
}
