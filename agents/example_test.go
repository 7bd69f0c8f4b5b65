package agents_test

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/pdu"
)

// Sensors is an agent with one metric, which has the temperature of each sensor.
type Sensors struct {
	domain int
	names  []string
	temps  []uint32 // in degrees Celsius
}

var (
	_ agents.Agent     = (*Sensors)(nil)
	_ agents.Instancer = (*Sensors)(nil)
)

func (s *Sensors) temperature() pdu.PMID { return pdu.NewPMID(s.domain, 0, 0) }
func (s *Sensors) indom() pdu.InDom      { return pdu.NewInDom(s.domain, 0) }

func (s *Sensors) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != s.temperature() {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: s.indom(), Sem: pdu.SemInstant}, nil
}

func (s *Sensors) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != s.temperature() {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		for inst, temp := range s.temps {
			if r.Profile.Includes(s.indom(), int32(inst)) { // the client requests it
				w.Word(int32(inst), temp)
			}
		}
	}
	return nil
}

func (s *Sensors) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom != s.indom() {
		return nil, pdu.ErrnoInDom
	}
	var list []pdu.Inst
	for i, name := range s.names {
		list = append(list, pdu.Inst{ID: int32(i), Name: name})
	}
	return list, nil
}

// This agent implements the interfaces itself. For most agents package pmda is
// simpler: it makes an agent from a table of metrics.
func Example() {
	// As a plugin, this is the function NewAgent; see docs/plugins.md.
	newAgent := func(domain int) (agents.Agent, error) {
		return &Sensors{domain: domain, names: []string{"cpu", "disk"}, temps: []uint32{48, 31}}, nil
	}

	// pmcd sends requests to the agent as follows.
	a, err := newAgent(400)
	if err != nil {
		fmt.Println(err)
		return
	}
	var insts pdu.Instance
	req := &pdu.InstanceReq{InDom: pdu.NewInDom(400, 0), Inst: pdu.NoInst}
	if err := agenttest.Do(a, agents.Origin{}, req, &insts); err != nil {
		fmt.Println(err)
	}
	var res pdu.Result
	if err := agenttest.Do(a, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(400, 0, 0)}}, &res); err != nil {
		fmt.Println(err)
	}
	for i, v := range res.Sets[0].Values {
		fmt.Println(insts.Insts[i].Name, v.Word)
	}
	// Output:
	// cpu 48
	// disk 31
}
