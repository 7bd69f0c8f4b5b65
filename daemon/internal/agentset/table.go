package agentset

import (
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/logtext"
)

// LogTable logs the table of those agents of list that are connected.
func (s *Set) LogTable(list []*Agent) {
	var rows []diag.AgentRow
	for _, a := range list {
		c := a.Conn()
		if c == nil {
			continue
		}
		spec := a.Spec()
		row := diag.AgentRow{Name: spec.Name, Domain: a.Domain, In: c.In, Out: c.Out, Params: spec.Params(c.Interface)}
		if c.Process != nil {
			row.PID = c.Process.PID()
		}
		rows = append(rows, row)
	}
	s.cfg.Log.With(logtext.Bare()).Info(diag.AgentTable(rows), logtext.Event("agent_table"))
}
