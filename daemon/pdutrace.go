package daemon

import (
	"fmt"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
)

// tracesPDUs reports whether PDUs are in the trace or in the log.
func (d *Daemon) tracesPDUs() bool {
	return d.debug.Shows(diag.DebugPDU|diag.DebugOps) || d.trace.On(diag.TracePDUs)
}

// traceClientPDU puts the PDUs of a client in the trace and in the log, as far as
// they are to be there. What is sent may be two.
func (s *session) traceClientPDU(sent bool, b []byte) {
	d := s.d
	if !d.tracesPDUs() {
		return
	}
	show := d.debug.Shows(diag.DebugPDU | diag.DebugOps)
	for len(b) >= pdu.HeaderLen {
		n, _, _ := pdu.Header(b)
		one := b[:min(max(int(n), pdu.HeaderLen), len(b))]
		b = b[len(one):]
		d.trace.PDU(sent, s.conn.FD(), one)
		if show {
			d.debug.PDU(sent, fmt.Sprintf("client[%d]", s.num), one)
		}
	}
}

// debugAuth logs what a client that has stated its account may do.
func (s *session) debugAuth() {
	if s.d.debug.Shows(diag.DebugAuth) {
		user := "unknown"
		if s.peer.HasUser {
			user = fmt.Sprintf("%d, group %d", s.peer.UID, s.peer.GID)
		}
		s.d.debug.Printf(diag.DebugAuth, "client[%d] %s is user %s; denied: %s", s.num, s.addr, user, deniedText(s))
	}
}

// debugAccess logs what the rules for hosts say about a client.
func (s *session) debugAccess(refusal pdu.Errno) {
	if s.d.debug.Shows(diag.DebugAccess) {
		text := "admitted, denied: " + deniedText(s)
		if refusal < 0 {
			text = "refused"
		}
		s.d.debug.Printf(diag.DebugAccess, "client[%d] %s: %s", s.num, s.addr, text)
	}
}

func deniedText(s *session) string {
	if op := s.denied(); op != 0 {
		return op.String()
	}
	return "nothing"
}
