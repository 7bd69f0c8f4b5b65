package daemon

import (
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
)

// logAgents logs the table of connected agents.
func (d *Daemon) logAgents(r *routes.Table) {
	var rows []diag.AgentRow
	for _, a := range r.Agents() {
		l := a.Conn()
		if l == nil {
			continue
		}
		spec := a.Spec()
		row := diag.AgentRow{Name: spec.Name, Domain: a.Domain, In: l.In, Out: l.Out, Params: spec.Params(l.Interface)}
		if l.Process != nil {
			row.PID = l.Process.PID()
		}
		rows = append(rows, row)
	}
	d.plain.Info(diag.AgentTable(rows))
}
