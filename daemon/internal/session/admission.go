package session

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/daemon/internal/tlspolicy"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
)

// An admission has the current access rules, and the hosts that were refused.
type admission struct {
	counter      *access.Counter
	credsReqd    atomic.Bool // -S, or there are rules for users or groups
	certRequired bool        // -Q
	tls          func() *tlspolicy.Server
	sasl         func() *sasl.Host
	violations   violations
}

// loginError returns why clients cannot log in, or nil.
func (a *admission) loginError() error {
	host := a.sasl()
	if host == nil {
		return errors.ErrUnsupported
	}
	return host.Available()
}

// needsCert reports whether p must use TLS with a certificate (pmcd -Q). All peers must,
// except local ones. As in pmcd 6.0.3, not all of 127.* is local.
func (a *admission) needsCert(p access.Peer) bool {
	local := p.Family == access.Unix || p.Addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || p.Addr == netip.IPv6Loopback()
	return a.certRequired && !local
}

// secure returns the TLS policy, or nil if TLS is off.
func (a *admission) secure() *tlspolicy.Server {
	if a.tls == nil {
		return nil
	}
	return a.tls()
}

// features returns the features that the greeting offers.
func (a *admission) features() pdu.Features {
	f := pdu.FeatureContainer | pdu.FeatureLabels | pdu.FeatureHighRes | pdu.FeatureDescs
	if a.credsReqd.Load() {
		f |= pdu.FeatureCredsReqd
	}
	if a.loginError() == nil {
		f |= pdu.FeatureAuth
	}
	if a.secure() != nil {
		f |= pdu.FeatureSecure | pdu.FeatureSecureAck
	}
	if a.certRequired {
		f |= pdu.FeatureCertReqd
	}
	return f
}

// CredsRequired reports whether clients must state their account.
func (s *Server) CredsRequired() bool { return s.admission.credsReqd.Load() }

// CanLogIn reports whether clients can log in.
func (s *Server) CanLogIn() bool { return s.admission.loginError() == nil }

// Secure reports whether clients can use TLS.
func (s *Server) Secure() bool { return s.admission.secure() != nil }

// ApplyRules makes rules the current access rules. It applies them to all clients, in the
// order of their numbers. Clients that are refused get an error and are disconnected, after
// the reply to a request in progress.
//
// C pmcd differs: credentials stay required if there were rules for users before.
func (s *Server) ApplyRules(rules *access.List) {
	// The greeting of clients that connect meanwhile says that credentials are required
	// if they may be.
	if required := rules.CredsRequired(); required {
		s.admission.credsReqd.Store(true)
	} else {
		defer s.admission.credsReqd.Store(false)
	}
	for _, r := range s.admission.counter.Recount(rules) {
		// It may have disconnected, and another client may have its number.
		if c := s.Clients.Client(int32(r.Conn.Num())); c != nil && &c.Grant == r.Conn {
			code := refusal(r.Err)
			s.logViolation(c, code) // now, as tables of the clients that are left follow
			c.Refuse(code)
		}
	}
}

// LogRules logs the access rules in force, and the connections that count for
// them.
func (s *Server) LogRules() {
	s.plain.Info(s.admission.counter.String()+"\n", logtext.Event("access_table"))
}

// ResetViolations has access violations logged again, once for each host.
func (s *Server) ResetViolations() { s.admission.violations.reset() }

// sendAttrs sends the attributes of the client to agents, if they have changed.
func (s *session) sendAttrs() {
	s.client.SendAttrs(s.srv.cfg.Routes, s.srv.cfg.Debug)
}

// admit decides by the rules for hosts whether the client may connect. It
// returns why not.
func (s *session) admit() pdu.Errno {
	if err := s.srv.admission.counter.Admit(&s.client.Grant, int(s.client.Num), s.client.Peer); err != nil {
		return refusal(err)
	}
	return 0
}

// checkAccount checks the rules for users and groups, once the client's account is
// known, and notifies agents. A client that has to state an account and did not is
// denied everything. The error, if there is one, is the answer.
func (s *session) checkAccount() []pdu.Errno {
	var err error
	s.wait(func() { err = s.client.Grant.Login(s.client.Account()) })
	return s.checked(err)
}

// checked is checkAccount after Login, whose error is err.
func (s *session) checked(err error) []pdu.Errno {
	if err != nil {
		if errors.As(err, new(*access.AccountError)) {
			s.srv.cfg.Limiter.Warn("account", "cannot check the account of client[{client}] {address}: {error}; the client may neither fetch nor store",
				"client", s.client.Num, "address", s.client.Addr, "error", err)
		}
		return []pdu.Errno{refusal(err)}
	}
	s.sendAttrs()
	return nil
}

// refusal returns the code of an error of package access for a client.
func refusal(err error) pdu.Errno {
	switch {
	case errors.Is(err, access.ErrConnLimit):
		return pdu.ErrnoConnLimit
	case errors.Is(err, access.ErrDenied), errors.As(err, new(*access.AccountError)):
		return pdu.ErrnoPermission
	}
	return pdu.ErrnoOf(err)
}

// violations has the hosts whose clients were refused since the configuration was last
// read. Each is logged once.
type violations struct {
	mu   sync.Mutex // guards the following: the acceptor, sessions and a reload refuse clients
	seen map[string]bool
}

// maxViolations is the number of hosts that are remembered, as any host can be refused.
const maxViolations = 1000

// add adds a host. It reports whether the host is new, and whether it is the first one above
// maxViolations.
func (v *violations) add(host string) (isNew, full bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seen[host] || len(v.seen) > maxViolations {
		return false, false
	}
	if v.seen == nil {
		v.seen = make(map[string]bool)
	}
	v.seen[host] = true
	return true, len(v.seen) > maxViolations
}

func (v *violations) reset() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = nil
}

// logViolation logs the refusal of a client. PCP's QA reads these lines.
func (s *Server) logViolation(c *clients.Client, code pdu.Errno) {
	switch isNew, full := s.admission.violations.add(c.Addr); {
	case full:
		s.cfg.Log.Warn("too many hosts were refused: further access violations are not logged until SIGHUP")
	case isNew:
		s.plain.Warn("access violation from host {address}", "client", c.Num, "address", c.Addr)
		s.plain.Warn("endclient client[{client}]: (fd {fd}) {error} ({code})",
			"client", c.Num, "address", c.Addr, "fd", c.Conn.FD(), "error", code, "code", int32(code))
	}
}
