package daemon

import (
	"slices"

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

// logClients logs the table of clients, under a title, in the order in which a
// reload decides about them.
func (d *Daemon) logClients(title string) {
	sessions := d.sessions()
	slices.SortFunc(sessions, func(a, b *session) int { return int(a.num) - int(b.num) })
	rows := make([]diag.ClientRow, len(sessions))
	for i, s := range sessions {
		rows[i] = diag.ClientRow{FD: s.conn.FD(), Addr: s.addr, Version: s.version.Load()}
		if op := s.denied(); op != 0 {
			rows[i].Denied = op.String()
		}
	}
	d.plain.Info(diag.ClientTable(title, rows))
}

// logAccess logs the access rules in force, and the connections that count for
// them.
func (d *Daemon) logAccess() {
	d.plain.Info(d.access.String() + "\n")
}
