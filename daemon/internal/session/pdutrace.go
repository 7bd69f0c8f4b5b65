package session

import (
	"fmt"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
)

// tracesPDUs reports whether PDUs are in the trace or in the log.
func (s *Server) tracesPDUs() bool {
	return s.cfg.Debug.Shows(diag.DebugPDU|diag.DebugOps) || s.cfg.Trace.On(diag.TracePDUs)
}

// traceClientPDU puts the PDUs of a client in the trace and in the log, as far as
// they are to be there. What is sent may be two.
func (s *session) traceClientPDU(sent bool, b []byte) {
	cfg := &s.srv.cfg
	if !s.srv.tracesPDUs() {
		return
	}
	show := cfg.Debug.Shows(diag.DebugPDU | diag.DebugOps)
	for len(b) >= pdu.HeaderLen {
		n, _, _ := pdu.Header(b)
		one := b[:min(max(int(n), pdu.HeaderLen), len(b))]
		b = b[len(one):]
		cfg.Trace.PDU(sent, s.client.Conn.FD(), one)
		if show {
			cfg.Debug.PDU(sent, one, "client[{client}]", "client", s.client.Num, "address", s.client.Addr)
		}
	}
}

// debugAuth logs what a client that has stated its account may do.
func (s *session) debugAuth() {
	if s.srv.cfg.Debug.Shows(diag.DebugAuth) {
		user := "unknown"
		if p := s.client.Account(); p.HasUser {
			user = fmt.Sprintf("%d, group %d", p.UID, p.GID)
		}
		s.srv.cfg.Debug.Log(diag.DebugAuth, "client[{client}] {address} is user {user}; denied: {denied}",
			"client", s.client.Num, "address", s.client.Addr, "user", user, "denied", deniedText(s))
	}
}

// debugAccess logs what the rules for hosts say about a client.
func (s *session) debugAccess(refusal pdu.Errno) {
	if s.srv.cfg.Debug.Shows(diag.DebugAccess) {
		text := "admitted, denied: " + deniedText(s)
		if refusal < 0 {
			text = "refused"
		}
		s.srv.cfg.Debug.Log(diag.DebugAccess, "client[{client}] {address}: {rights}", "client", s.client.Num, "address", s.client.Addr, "rights", text)
	}
}

func deniedText(s *session) string {
	if op := s.client.Denied(); op != 0 {
		return op.String()
	}
	return "nothing"
}
