package diag

import (
	"fmt"
	"strings"
)

// An AgentRow is a line of AgentTable.
type AgentRow struct {
	Name    string
	Domain  int
	PID     int // of the process that pmcd started; 0 if there is none
	In, Out int // descriptors; -1 if there are none
	Params  string
}

// AgentTable is the table of connected agents. PCP's QA reads it.
func AgentTable(rows []AgentRow) string {
	var b strings.Builder
	b.WriteString("\nactive agent dom   pid  in out ver protocol parameters\n")
	b.WriteString("============ === ===== === === === ======== ==========")
	for _, r := range rows {
		pid, in, out := "", "", ""
		if r.PID != 0 {
			pid = fmt.Sprint(r.PID)
		}
		if r.In >= 0 {
			in, out = fmt.Sprint(r.In), fmt.Sprint(r.Out)
		}
		fmt.Fprintf(&b, "\n%-12s %3d %5s %3s %3s   2 %s", r.Name, r.Domain, pid, in, out, r.Params)
	}
	b.WriteByte('\n')
	return b.String()
}

// A ClientRow is a line of ClientTable.
type ClientRow struct {
	FD      int
	Addr    string
	Version int32  // of the protocol
	Denied  string // operations; "" is none
}

// ClientTable is the table of clients, under a title.
//
// C pmcd differs: it has the names of hosts, and waits for a name server.
func ClientTable(title string, rows []ClientRow) string {
	var b strings.Builder
	b.WriteString("\n" + title + "\n     fd  client connection from                    ipc ver  operations denied\n")
	b.WriteString("     ==  ========================================  =======  =================")
	for _, r := range rows {
		fmt.Fprintf(&b, "\n    %3d  %-40s  %7d", r.FD, r.Addr, r.Version)
		if r.Denied != "" {
			b.WriteString("  " + r.Denied)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// stateNames are the state changes that clients are notified of (PMCD_* of
// pmapi.h).
var stateNames = [...]string{"ADD_AGENT", "RESTART_AGENT", "DROP_AGENT", "LABEL_CHANGE", "NAMES_CHANGE", "HOSTNAME_CHANGE"}

// StateChanges names the state changes in bits.
func StateChanges(bits int32) string {
	var list []string
	for i, name := range stateNames {
		if bits&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, "+")
}
