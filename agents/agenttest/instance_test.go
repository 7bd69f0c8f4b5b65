package agenttest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/pdu"
)

// loads has instances with names of several words.
type loads struct{ *answer }

func (loads) Instances(context.Context, agents.Origin, pdu.InDom) ([]pdu.Inst, error) {
	return []pdu.Inst{{ID: 10, Name: "15 minute"}, {ID: 11, Name: "1 minute"}, {ID: 12, Name: "5 minute"}, {ID: 13, Name: "5"}, {ID: 14, Name: "1 hour"}}, nil
}

// Names are looked up as pmdaInstance(3) does: the first word will do.
func TestLookupOfInstances(t *testing.T) {
	cd := agents.Inline(loads{newAnswer()})
	defer cd.Close()
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
		var reply pdu.Instance
		err := agenttest.Do(cd, agents.Origin{}, &pdu.InstanceReq{Inst: tt.id, Name: tt.name}, &reply)
		if !errors.Is(err, tt.err) {
			t.Errorf("%d %q: %v, want %v", tt.id, tt.name, err, tt.err)
		} else if err == nil && (len(reply.Insts) != 1 || reply.Insts[0] != tt.want) {
			t.Errorf("%d %q: %v, want %v", tt.id, tt.name, reply.Insts, tt.want)
		}
	}
}
