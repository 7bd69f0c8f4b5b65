package daemon

import (
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pdu"
)

// errBeforeCreds ends a session that asks for something before it has stated
// its version.
var errBeforeCreds = errors.New("PDU before CREDS")

// needs is what a client must be allowed for a PDU of each type (pmcd(1),
// ACCESS CONTROL). Others are no requests.
func needs(t pdu.Type) (op access.Op, ok bool) {
	switch t {
	case pdu.TypeCreds:
		return 0, true
	case pdu.TypeResult:
		return access.Store, true
	case pdu.TypeProfile, pdu.TypeFetch, pdu.TypeHighResFetch, pdu.TypeDescReq, pdu.TypeDescIDs,
		pdu.TypeInstanceReq, pdu.TypeTextReq, pdu.TypeLabelReq,
		pdu.TypePMNSIDs, pdu.TypePMNSNames, pdu.TypePMNSChild, pdu.TypePMNSTraverse:
		return access.Fetch, true
	}
	return 0, false
}

// dispatch handles one PDU of the client's. An error ends the session.
func (s *session) dispatch(w *work, b []byte) error {
	_, t, _ := pdu.Header(b)
	s.d.counts.In(t)
	w.routes = s.d.routes.Load()
	if s.d.trace.on(tracePDUs) {
		s.d.trace.event(tracePDUs, "Recv: %v PDU, fd=%d", t, fdOf(s.conn))
	}
	if !s.greeted && t != pdu.TypeCreds {
		return errBeforeCreds
	}
	if s.awaiting && t != pdu.TypeCreds { // the container, and nothing else
		s.awaiting = false
		return s.setContainer(w, b)
	}
	op, ok := needs(t)
	switch {
	case !ok:
		return s.fail(w, pdu.ErrnoIPC)
	case access.Op(s.denied.Load())&op != 0:
		return s.fail(w, pdu.ErrnoPermission)
	}
	switch t {
	case pdu.TypeCreds:
		return s.setCreds(w, b)
	case pdu.TypeProfile:
		return s.setProfile(w, b)
	case pdu.TypeFetch, pdu.TypeHighResFetch:
		return s.fetch(w, b)
	case pdu.TypeDescReq, pdu.TypeInstanceReq, pdu.TypeTextReq:
		return s.lookup(w, b)
	case pdu.TypeDescIDs:
		return s.descs(w, b)
	case pdu.TypeLabelReq:
		return s.labels(w, b)
	case pdu.TypeResult:
		return s.store(w, b)
	case pdu.TypePMNSNames:
		return s.namesToIDs(w, b)
	case pdu.TypePMNSIDs:
		return s.idToNames(w, b)
	case pdu.TypePMNSChild:
		return s.children(w, b)
	default:
		return s.traverse(w, b)
	}
}

// setCreds takes the client's version and what it wants to do next. Success
// has no answer.
func (s *session) setCreds(w *work, b []byte) error {
	var m pdu.Creds
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	version, flags := 0, pdu.Features(0)
	for _, c := range m.Creds {
		if c.Kind() == pdu.CredVersion {
			version, flags = int(c.Version()), c.Flags()
		}
	}
	if version == 0 {
		return nil // its next PDU ends the session
	}
	s.greeted = true
	const known = pdu.FeatureSecure | pdu.FeatureSecureAck | pdu.FeatureCompress |
		pdu.FeatureAuth | pdu.FeatureCredsReqd | pdu.FeatureContainer | pdu.FeatureCertReqd
	switch {
	case flags&^known != 0:
		return s.fail(w, pdu.ErrnoIPC)
	case flags&(pdu.FeatureCompress|pdu.FeatureAuth) != 0: // the greeting offers neither
		return s.fail(w, pdu.ErrnoEOPNOTSUPP)
	case flags&pdu.FeatureSecure != 0:
		if err := s.fail(w, pdu.ErrnoNotConn); err != nil || flags&pdu.FeatureSecureAck == 0 {
			return err
		}
		return s.fail(w, pdu.ErrnoNotConn) // one is the acknowledgement
	case flags&pdu.FeatureContainer != 0:
		s.awaiting = true
		return nil
	}
	return s.admitAccount(w)
}

// setContainer takes the name of the container that a client chose in CREDS.
func (s *session) setContainer(w *work, b []byte) error {
	var m pdu.Attr
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Code != pdu.AttrContainer {
		return s.fail(w, pdu.ErrnoIPC)
	}
	if !validContainer(m.Value) {
		s.checkAccount(w) // it goes on without one
		return s.fail(w, pdu.ErrnoEINVAL)
	}
	s.mu.Lock()
	s.container, s.contained = string(m.Value), true
	s.mu.Unlock()
	return s.admitAccount(w)
}

// validContainer says if a name is one: letters, digits, '.', '-' and '_'.
func validContainer(name []byte) bool {
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return len(name) > 0
}

// setProfile replaces the profile of one of the client's contexts. Success
// has no answer.
func (s *session) setProfile(w *work, b []byte) error {
	p := new(pdu.Profile) // a new address says that it has changed
	if _, err := pdu.ParseInto(b, p); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	n := int(p.Context)
	if n >= s.d.cfg.MaxContexts {
		return s.fail(w, pdu.ErrnoEAGAIN)
	}
	for len(s.contexts) <= n {
		s.contexts = append(s.contexts, nil)
	}
	s.contexts[n] = p
	s.current = p.Context
	return nil
}

// profile returns the profile of a context, or nil.
func (s *session) profile(context int32) *pdu.Profile {
	if context < 0 || int(context) >= len(s.contexts) {
		return nil
	}
	return s.contexts[context]
}

// admit checks the rules for hosts. It returns why the client is refused.
func (s *session) admit() pdu.Errno {
	denied := s.d.routes.Load().access.Host(s.peer)
	if denied == access.All {
		s.d.rate.printf(s.d, "access "+s.addr, "access violation from host %s", s.addr)
		return pdu.ErrnoPermission
	}
	s.hostDenied = denied
	if s.d.credsReqd.Load() {
		denied = access.All // until the account is checked
	}
	s.denied.Store(int32(denied))
	return 0
}

// admitAccount is checkAccount and says if it fails. Success has no answer.
func (s *session) admitAccount(w *work) error {
	if code := s.checkAccount(w); code != 0 {
		return s.fail(w, code)
	}
	return nil
}

// checkAccount checks the rules for users and groups, once it is known who
// the client is, and tells agents. One who has to say so and did not is denied
// everything.
func (s *session) checkAccount(w *work) pdu.Errno {
	if s.d.credsReqd.Load() {
		denied := access.All
		if s.peer.HasUser {
			if d, err := w.routes.access.Account(s.peer); err == nil {
				denied = d
			} else {
				s.d.log.Warn(fmt.Sprintf("cannot check the account of client[%d] %s: %v", s.num, s.addr, err))
			}
		}
		denied |= s.hostDenied
		s.denied.Store(int32(denied))
		if denied == access.All {
			return pdu.ErrnoPermission
		}
	}
	s.announce()
	return 0
}
