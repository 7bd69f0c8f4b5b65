package trivial

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/pdu"
)

func TestAgent(t *testing.T) {
	a, err := New(Domain)
	if err != nil {
		t.Fatal(err)
	}
	id := pdu.NewPMID(Domain, 0, 0)
	agenttest.Test(t, a, id)

	var d pdu.Desc
	if err := agenttest.Do(a, agents.Origin{}, &pdu.DescReq{PMID: id}, &d); err != nil {
		t.Fatal(err)
	}
	if d.ValueType != pdu.MetricU64 || d.Sem != pdu.SemCounter || d.Units.String() != "sec" || d.InDom != pdu.NoInDom {
		t.Errorf("trivial.time is %+v", d)
	}

	before := uint64(time.Now().Unix())
	var r pdu.Result
	if err := agenttest.Do(a, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{id}}, &r); err != nil {
		t.Fatal(err)
	}
	after := uint64(time.Now().Unix())
	if len(r.Sets[0].Values) != 1 || len(r.Sets[0].Values[0].Block) != 8 {
		t.Fatalf("trivial.time: %+v", r.Sets[0])
	}
	v := r.Sets[0].Values[0]
	if got := binary.BigEndian.Uint64(v.Block); v.Inst != pdu.NoInst || got < before || got > after {
		t.Errorf("trivial.time of instance %d is %d, want %d to %d of instance -1", v.Inst, got, before, after)
	}

	for _, tt := range []struct {
		req  pdu.Message
		want pdu.Errno
	}{
		{&pdu.DescReq{PMID: pdu.NewPMID(Domain, 0, 1)}, pdu.ErrnoPMID},
		{&pdu.DescReq{PMID: pdu.NewPMID(Domain, 1, 0)}, pdu.ErrnoPMID},
		{&pdu.InstanceReq{InDom: pdu.NewInDom(Domain, 0), Inst: pdu.NoInst}, pdu.ErrnoInDom},
		{&pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Values: []pdu.Value{{Inst: pdu.NoInst}}}}}, pdu.ErrnoPermission},
	} {
		if err := agenttest.Do(a, agents.Origin{}, tt.req, new(pdu.Error)); err != error(tt.want) {
			t.Errorf("%+v: %v, want %v", tt.req, err, tt.want)
		}
	}
	for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
		var text pdu.Text
		req := &pdu.TextReq{Ident: uint32(id), Kind: kind | pdu.TextPMID}
		if err := agenttest.Do(a, agents.Origin{}, req, &text); err != nil {
			t.Errorf("help text %v: %v", kind, err)
		}
	}
}

func TestDomain(t *testing.T) {
	if _, err := New(0); err == nil {
		t.Error("domain 0 is accepted")
	}
}
