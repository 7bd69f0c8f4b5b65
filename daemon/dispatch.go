package daemon

import (
	"errors"

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
	s.countIn(b)
	_, t, _ := pdu.Header(b)
	w.routes = s.d.routes.Load()
	if s.version.Load() == 0 && t != pdu.TypeCreds {
		return errBeforeCreds
	}
	if s.awaiting && t != pdu.TypeCreds { // the container, and nothing else
		s.awaiting = false
		return s.failAll(w, s.setContainer(b))
	}
	op, ok := needs(t)
	switch {
	case !ok:
		return s.fail(w, pdu.ErrnoIPC)
	case s.denied()&op != 0:
		return s.fail(w, pdu.ErrnoPermission)
	}
	switch t {
	case pdu.TypeCreds:
		return s.failAll(w, s.setCreds(b))
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

// failAll sends errors, each in a PDU of its own.
func (s *session) failAll(w *work, codes []pdu.Errno) error {
	for _, code := range codes {
		if err := s.fail(w, code); err != nil {
			return err
		}
	}
	return nil
}

// setCreds takes the client's version and what the client wants to do next. It
// returns the errors that are the answer. Success has no answer.
func (s *session) setCreds(b []byte) []pdu.Errno {
	defer s.debugAuth()
	var m pdu.Creds
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return []pdu.Errno{pdu.ErrnoIPC}
	}
	version, flags := int32(0), pdu.Features(0)
	for _, c := range m.Creds {
		if c.Kind() == pdu.CredVersion {
			version, flags = int32(c.Version()), c.Flags()
		}
	}
	if version == 0 {
		return nil // its next PDU ends the session
	}
	s.version.Store(version)
	if s.needsCert && flags&pdu.FeatureSecure == 0 {
		return []pdu.Errno{pdu.ErrnoNeedClientCert}
	}
	const known = pdu.FeatureSecure | pdu.FeatureSecureAck | pdu.FeatureCompress |
		pdu.FeatureAuth | pdu.FeatureCredsReqd | pdu.FeatureContainer | pdu.FeatureCertReqd
	switch {
	case flags&^known != 0:
		return []pdu.Errno{pdu.ErrnoIPC}
	case flags&(pdu.FeatureCompress|pdu.FeatureAuth) != 0: // the greeting offers neither
		return []pdu.Errno{pdu.ErrnoEOPNOTSUPP}
	case flags&pdu.FeatureSecure != 0:
		if flags&pdu.FeatureSecureAck == 0 {
			return []pdu.Errno{pdu.ErrnoNotConn}
		}
		return []pdu.Errno{pdu.ErrnoNotConn, pdu.ErrnoNotConn} // one is the acknowledgement
	case flags&pdu.FeatureContainer != 0:
		s.awaiting = true
		return nil
	}
	return s.checkAccount()
}

// setContainer takes the name of the container that a client chose in CREDS. It
// returns the errors that are the answer.
func (s *session) setContainer(b []byte) []pdu.Errno {
	var m pdu.Attr
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Code != pdu.AttrContainer {
		return []pdu.Errno{pdu.ErrnoIPC}
	}
	if !validContainer(m.Value) {
		s.checkAccount() // it goes on without one
		return []pdu.Errno{pdu.ErrnoEINVAL}
	}
	s.mu.Lock()
	s.container, s.contained = string(m.Value), true
	s.mu.Unlock()
	return s.checkAccount()
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
	if !s.contexts.set(p.Context, p, s.d.cfg.MaxContexts) {
		return s.fail(w, pdu.ErrnoEAGAIN)
	}
	s.current = p.Context
	return nil
}
