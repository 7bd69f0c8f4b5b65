package responder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/responder"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
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

// A hostile Agent has control characters in all strings.
type hostile struct{ agents.Agent }

const controls = "\x00\x1b[2J\r\u009b\x9b\x7f"

var hostileInsts = []pdu.Inst{{ID: 1, Name: "good"}, {ID: 2, Name: "a\n" + controls + " b"}}

func (hostile) Instances(context.Context, agents.Origin, pdu.InDom) ([]pdu.Inst, error) {
	return hostileInsts, nil
}

func (hostile) Text(context.Context, agents.Origin, pdu.PMID, bool) (string, error) {
	return "a\n\t" + controls, nil
}

func (hostile) InDomText(context.Context, agents.Origin, pdu.InDom, bool) (string, error) {
	return "b\n\t" + controls, nil
}

// A namer also has the name of one instance.
type namer struct{ hostile }

func (namer) InstName(context.Context, agents.Origin, pdu.InDom, int32) (string, error) {
	return hostileInsts[1].Name, nil
}

// Clients get no control characters, and find an instance by the name that they got.
func TestControls(t *testing.T) {
	const escaped = `\x00\x1b[2J\r\u009b\x9b\x7f`
	const name = `a\n` + escaped + " b"
	for agentName, a := range map[string]agents.Agent{"without InstName": hostile{}, "with InstName": namer{}} {
		r := responder.Responder{Agent: a}
		for _, tt := range []struct {
			req  pdu.InstanceReq
			want []pdu.Inst
		}{
			{pdu.InstanceReq{Inst: pdu.NoInst}, []pdu.Inst{{ID: 1, Name: "good"}, {ID: 2, Name: name}}},
			{pdu.InstanceReq{Inst: 2}, []pdu.Inst{{ID: pdu.NoInst, Name: name}}},
			{pdu.InstanceReq{Inst: pdu.NoInst, Name: name}, []pdu.Inst{{ID: 2}}},
			{pdu.InstanceReq{Inst: pdu.NoInst, Name: `a\n` + escaped}, []pdu.Inst{{ID: 2}}},
		} {
			var reply pdu.Instance
			if err := do(t, &r, nil, &tt.req, &reply); err != nil || !slices.Equal(reply.Insts, tt.want) {
				t.Errorf("%s, %+v: %q, %v; want %q", agentName, tt.req, reply.Insts, err, tt.want)
			}
		}
	}
	if hostileInsts[1].Name != "a\n"+controls+" b" {
		t.Errorf("the agent's own list has changed: %q", hostileInsts)
	}
	r := responder.Responder{Agent: hostile{}}
	for kind, want := range map[pdu.TextKind]string{
		pdu.TextPMID | pdu.TextOneLine:  "a\n\t" + escaped,
		pdu.TextPMID | pdu.TextHelp:     "a\n\t" + escaped,
		pdu.TextInDom | pdu.TextOneLine: "b\n\t" + escaped,
		pdu.TextInDom | pdu.TextHelp:    "b\n\t" + escaped,
	} {
		var reply pdu.Text
		if err := do(t, &r, nil, &pdu.TextReq{Kind: kind}, &reply); err != nil || reply.Text != want {
			t.Errorf("text %d: %q, %v; want %q", kind, reply.Text, err, want)
		}
	}
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
