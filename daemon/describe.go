package daemon

import (
	"fmt"
	"slices"
	"strings"
)

// describeAgents logs the table of connected agents. PCP's QA reads it.
func (d *Daemon) describeAgents(r *routes) {
	var b strings.Builder
	b.WriteString("\nactive agent dom   pid  in out ver protocol parameters\n")
	b.WriteString("============ === ===== === === === ======== ==========")
	for _, a := range r.list {
		l := a.conn.Load()
		if l == nil {
			continue
		}
		spec := a.spec.Load()
		pid, in, out := "", "", ""
		if l.Process != nil {
			pid = fmt.Sprint(l.Process.PID())
		}
		if l.In >= 0 {
			in, out = fmt.Sprint(l.In), fmt.Sprint(l.Out)
		}
		fmt.Fprintf(&b, "\n%-12s %3d %5s %3s %3s   2 %s", spec.Name, a.domain, pid, in, out, spec.Params(l.Interface))
	}
	d.plain.Info(b.String() + "\n")
}

// describeClients logs the table of clients, under a title, in the order in
// which a reload decides about them.
//
// C pmcd differs: it has the names of hosts, and waits for a name server.
func (d *Daemon) describeClients(title string) {
	var b strings.Builder
	b.WriteString("\n" + title + "\n     fd  client connection from                    ipc ver  operations denied\n")
	b.WriteString("     ==  ========================================  =======  =================")
	sessions := d.sessions()
	slices.SortFunc(sessions, func(a, b *session) int { return int(a.num) - int(b.num) })
	for _, s := range sessions {
		fmt.Fprintf(&b, "\n    %3d  %-40s  %7d", s.line.number(), s.addr, s.version.Load())
		if op := s.denied(); op != 0 {
			b.WriteString("  " + op.String())
		}
	}
	d.plain.Info(b.String() + "\n")
}

// describeAccess logs the access rules in force, and the connections that count
// for them.
func (d *Daemon) describeAccess() {
	d.plain.Info(d.access.String() + "\n")
}
