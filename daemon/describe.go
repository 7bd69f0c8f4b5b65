package daemon

import (
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/access"
)

// describeAgents logs the table of connected agents. PCP's QA reads it.
func (d *Daemon) describeAgents(r *routes) {
	var b strings.Builder
	b.WriteString("\nactive agent dom   pid  in out ver protocol parameters\n")
	b.WriteString("============ === ===== === === === ======== ==========")
	for _, a := range r.list {
		l := a.link.Load()
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

// describeClients logs the table of clients.
func (d *Daemon) describeClients() {
	var b strings.Builder
	b.WriteString("\nCurrent PMCD clients ...\n     fd  client connection from                    ipc ver  operations denied\n")
	b.WriteString("     ==  ========================================  =======  =================")
	for _, s := range d.sessions() {
		denied := ""
		if op := access.Op(s.denied.Load()); op != 0 {
			denied = op.String()
		}
		fmt.Fprintf(&b, "\n    %3d  %-40s  %7d  %s", fdOf(s.conn), s.addr, 2, denied)
	}
	d.plain.Info(b.String() + "\n")
}

// describeAccess logs the access rules in force.
func (d *Daemon) describeAccess(r *routes) {
	d.plain.Info(r.access.String())
}
