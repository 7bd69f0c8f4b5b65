package session

import "github.com/gopcp/pmcd/pdu"

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
	s.id.version.Store(version)
	if s.rights.needsCert && flags&pdu.FeatureSecure == 0 {
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
		s.container.awaited = true
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
	s.container.set(string(m.Value))
	return s.checkAccount()
}
