package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

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

// admitAccount is checkAccount and says if it fails. Success has no answer.
func (s *session) admitAccount(w *work) error {
	if code := s.checkAccount(); code != 0 {
		return s.fail(w, code)
	}
	return nil
}

// checkAccount checks the rules for users and groups, once it is known who
// the client is, and tells agents. One who has to say so and did not is denied
// everything.
func (s *session) checkAccount() pdu.Errno {
	if err := s.grant.Login(s.peer); err != nil {
		if errors.As(err, new(*access.AccountError)) {
			s.d.limiter.Printf("account", "cannot check the account of client[%d] %s: %v", s.num, s.addr, err)
		}
		return errnoOf(err)
	}
	s.announce()
	return 0
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

// refuse has the session end as soon as it does not answer a request.
func (s *session) refuse(code pdu.Errno) {
	s.refused.Store(int32(code))
	s.line.hurry() // after refused: see setReadDeadline
}

// setReadDeadline sets the deadline for the rest of a PDU, unless that would
// keep the session from noticing that it is refused.
func (s *session) setReadDeadline(t time.Time) error {
	err := s.line.conn.SetReadDeadline(t)
	if s.refused.Load() != 0 {
		return errRefused
	}
	return err
}

// sayError sends an ERROR that is no answer.
func (s *session) sayError(code pdu.Errno) error { return s.write(appendError(nil, code)) }

// farewell is how long a client that is refused may take to go by itself.
const farewell = 2 * time.Second

// maxFarewells is how many may take that at the same time. Who is refused must
// not take the descriptors that others need.
const maxFarewells = 256

// dismiss tells a client that is no longer one why, and lets it read that. To
// close a connection that has unread input resets it, and that may overtake
// what was written.
func (s *session) dismiss(say func(pdu.Errno) error, code pdu.Errno) {
	defer context.AfterFunc(s.d.stopping, s.line.shut)()
	defer s.d.farewells.Add(-1)
	s.line.linger()
	if n := s.d.farewells.Add(1); say(code) != nil || n > maxFarewells {
		return
	}
	if s.line.closeWrite() != nil {
		return
	}
	// All is written. When the daemon ends it is left to the kernel to deliver it,
	// once the input that is there by then is read.
	defer context.AfterFunc(s.d.ending, s.line.shut)()
	var scrap [512]byte
	for end := time.Now().Add(farewell); time.Now().Before(end); {
		if s.line.conn.SetReadDeadline(end) != nil {
			return
		}
		// refuse may have set a deadline of its own just now.
		if _, err := s.line.read(scrap[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
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
		s.d.plain.Warn(fmt.Sprintf("endclient client[%d]: (fd %d) %v (%d)", s.num, s.line.number(), code, int32(code)))
	}
}
