package pmcd

import (
	"context"
	"strconv"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// Instances implements [agents.Instancer].
func (a *Agent) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom.Domain() != a.domain {
		return nil, pdu.ErrnoInDom
	}
	var list []pdu.Inst
	switch indom.Serial() {
	case indomLoggers:
		for _, l := range loggers(a.config.TmpDir, nil) {
			list = append(list, l.inst)
		}
	case indomRegisters:
		for i := range int32(numRegisters) {
			list = append(list, numbered(i))
		}
	case indomAgents:
		for _, v := range a.host.Agents(nil) {
			list = append(list, pdu.Inst{ID: int32(v.Domain), Name: v.Name})
		}
	case indomPmies:
		for _, p := range pmies(a.config.TmpDir, a.config.RunDir, nil) {
			list = append(list, p.inst)
		}
	case indomBuffers:
		list = bufferInstances()
	case indomClients:
		for _, v := range a.host.Clients(nil) {
			list = append(list, numbered(v.Seq))
		}
	default:
		return nil, pdu.ErrnoInDom
	}
	return list, nil
}

// numbered returns the instance whose name is its number.
func numbered(id int32) pdu.Inst { return pdu.Inst{ID: id, Name: strconv.Itoa(int(id))} }
