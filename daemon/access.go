package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pdu"
)

// admit decides by the rules for hosts whether the client may connect. It
// returns why not.
func (s *session) admit() pdu.Errno {
	if err := s.d.access.Admit(&s.grant, int(s.num), s.peer); err != nil {
		return errnoOf(err)
	}
	return 0
}

// denied is what the client may not do.
func (s *session) denied() access.Op {
	if s.needsCert {
		return access.All
	}
	return s.grant.Denied()
}

// needsCert reports whether p must use TLS with a certificate (pmcd -Q). All
// but local peers must, and local is as in pmcd 6.0.3: not all of 127.*.
func (d *Daemon) needsCert(p access.Peer) bool {
	local := p.Family == access.Unix || p.Addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || p.Addr == netip.IPv6Loopback()
	return d.cfg.CertRequired && !local
}

// checkAccount checks the rules for users and groups, once the client's account is
// known, and notifies agents. A client that has to state an account and did not is
// denied everything. The error, if there is one, is the answer.
func (s *session) checkAccount() []pdu.Errno {
	if err := s.grant.Login(s.peer); err != nil {
		if errors.As(err, new(*access.AccountError)) {
			s.d.limiter.Printf("account", "cannot check the account of client[%d] %s: %v", s.num, s.addr, err)
		}
		return []pdu.Errno{errnoOf(err)}
	}
	s.announce()
	return nil
}

// applyRules puts access rules in force and decides by them about the clients
// there are, in the order of their numbers: those who are refused are told so
// and go. A request in hand is answered before.
//
// C pmcd differs: once there were rules for users, credentials stay required.
func (d *Daemon) applyRules(rules *access.List) {
	// Whoever connects meanwhile is told that credentials are required if they
	// may be.
	if required := rules.CredsRequired(); required {
		d.credsReqd.Store(true)
	} else {
		defer d.credsReqd.Store(false)
	}
	for _, r := range d.access.Recount(rules) {
		// It may have gone, and another may have its number.
		if s := d.clients.session(int32(r.Conn.Num())); s != nil && &s.grant == r.Conn {
			s.violation(errnoOf(r.Err)) // now, as tables of who is left follow
			s.refuse(errnoOf(r.Err))
		}
	}
}

// errRefused ends a session that a reload has refused.
var errRefused = errors.New("refused")

// refuse ends the session as soon as it does not answer a request.
func (s *session) refuse(code pdu.Errno) {
	s.refused.Store(int32(code))
	s.conn.Interrupt(errRefused)
}

// violations are the hosts that had a client refused since the configuration
// was last read. Each is in the log once.
type violations struct {
	mu   sync.Mutex // guards the following
	seen map[string]bool
}

// maxViolations is how many hosts are remembered: anybody can be one.
const maxViolations = 1000

// add reports whether host is new, and whether it is one too many.
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

// violation logs the refusal of the client. PCP's QA reads these lines.
func (s *session) violation(code pdu.Errno) {
	switch isNew, full := s.d.violations.add(s.addr); {
	case full:
		s.d.log.Warn("access violations from other hosts are not logged until the configuration is read again")
	case isNew:
		s.d.plain.Warn("access violation from host " + s.addr)
		s.d.plain.Warn(fmt.Sprintf("endclient client[%d]: (fd %d) %v (%d)", s.num, s.conn.FD(), code, int32(code)))
	}
}
