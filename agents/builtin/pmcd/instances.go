package pmcd

import (
	"context"
	"strconv"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Instances implements [agents.Instancer].
func (a *Agent) Instances(ctx context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom.Domain() != a.domain {
		return nil, pdu.ErrnoInDom
	}
	var list []pdu.Inst
	var all pdu.InDomProfile
	switch indom.Serial() {
	case indomLoggers:
		loggers, err := a.loggers(ctx, nil, all)
		for _, l := range loggers {
			list = append(list, l.inst)
		}
		return list, err
	case indomRegisters:
		for i := range int32(numRegisters) {
			list = append(list, numbered(i))
		}
	case indomAgents:
		for _, v := range a.host.Agents(nil) {
			list = append(list, pdu.Inst{ID: int32(v.Domain), Name: v.Name})
		}
	case indomPmies:
		pmies, err := a.pmies(ctx, nil, all)
		for _, p := range pmies {
			list = append(list, p.inst)
		}
		return list, err
	case indomBuffers:
		list = bufferInstances()
	case indomClients:
		seqs := a.host.ClientSeqs()
		list = make([]pdu.Inst, 0, len(seqs))
		pace := pace{ctx: ctx}
		for _, seq := range seqs {
			if err := pace.step(); err != nil {
				return nil, err
			}
			list = append(list, numbered(seq))
		}
	default:
		return nil, pdu.ErrnoInDom
	}
	return list, nil
}

// numbered returns the instance whose name is its number.
func numbered(id int32) pdu.Inst { return pdu.Inst{ID: id, Name: strconv.Itoa(int(id))} }
