package session

import (
	"slices"

	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/pdu"
)

// A client's CREDS PDU states the version of its protocol, and in flags what it wants to do
// next: to begin a TLS handshake, to log in, to choose a container.

// knownFlags are those that pmcd knows.
const knownFlags = pdu.FeatureSecure | pdu.FeatureSecureAck | pdu.FeatureCompress |
	pdu.FeatureAuth | pdu.FeatureCredsReqd | pdu.FeatureContainer | pdu.FeatureCertReqd

// parseCreds returns the version and the flags of a CREDS PDU. The version is 0 if it has
// none.
func parseCreds(b []byte) (version int32, flags pdu.Features, err error) {
	var m pdu.Creds
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return 0, 0, err
	}
	for _, c := range m.Creds {
		if c.Kind() == pdu.CredVersion {
			version, flags = int32(c.Version()), c.Flags()
		}
	}
	return version, flags, nil
}

// creds handles a CREDS PDU. Success has no answer of its own.
func (r *request) creds(b []byte) error {
	version, flags, err := parseCreds(b)
	if err == nil && flags&pdu.FeatureSecure != 0 && flags&^knownFlags == 0 && flags&pdu.FeatureCompress == 0 {
		r.s.client.Version.Store(version)
		if goOn, err := r.secure(flags); err != nil || !goOn {
			return err
		}
		flags &^= pdu.FeatureSecure | pdu.FeatureSecureAck
	}
	if err == nil && version != 0 && !r.s.client.NeedsCert.Load() && r.s.wantsLogin(flags) {
		r.s.client.Version.Store(version)
		if ok, err := r.login(); err != nil || !ok {
			return err
		}
		flags &^= pdu.FeatureAuth
	}
	refusal, known := r.s.setCreds(version, flags, err)
	if known {
		refusal = r.s.checkAccount()
	}
	r.s.debugAuth()
	return r.failAll(refusal)
}

// setCreds takes the client's version and what the client wants to do next, other than TLS.
// It returns the errors that are the answer, or that the account of the client is known and
// is to be checked. err is that of parseCreds.
func (s *session) setCreds(version int32, flags pdu.Features, err error) (refusal []pdu.Errno, known bool) {
	if err != nil {
		return []pdu.Errno{pdu.ErrnoIPC}, false
	}
	if version == 0 {
		return nil, false // its next PDU ends the session
	}
	s.client.Version.Store(version)
	if s.client.NeedsCert.Load() {
		return []pdu.Errno{pdu.ErrnoNeedClientCert}, false
	}
	switch {
	case flags&^knownFlags != 0:
		return []pdu.Errno{pdu.ErrnoIPC}, false
	case flags&pdu.FeatureCompress != 0, flags&pdu.FeatureAuth != 0 && !s.client.Peer.HasUser: // the greeting does not offer it
		return []pdu.Errno{pdu.ErrnoEOPNOTSUPP}, false
	case flags&pdu.FeatureContainer != 0:
		s.client.Container.Awaited = true
		return nil, false
	}
	return nil, true
}

// secure begins TLS. It reports false if the client has got an error.
func (r *request) secure(flags pdu.Features) (goOn bool, err error) {
	policy := r.s.srv.admission.secure()
	switch {
	case r.s.stream != r.s.client.Conn: // for the second time
		return false, r.fail(pdu.ErrnoIPC)
	case policy == nil && flags&pdu.FeatureSecureAck != 0:
		return false, r.failAll([]pdu.Errno{pdu.ErrnoNotConn, pdu.ErrnoNotConn}) // one is the acknowledgement
	case policy == nil:
		return false, r.fail(pdu.ErrnoNotConn)
	case flags&pdu.FeatureSecureAck != 0:
		if err := r.fail(0); err != nil {
			return false, err
		}
	}
	pending := slices.Clone(r.in[r.next:])
	r.in = r.in[:r.next]
	r.s.wait(func() { // handshakes have turns of their own
		r.s.BeforeWait()
		r.s.stream, err = r.s.srv.tls.Server(r.s.stream, policy.Config(), pending, &r.s.client.Key, r.s.holdRequest)
	})
	if err != nil {
		return false, &handshakeError{err}
	}
	r.s.client.NeedsCert.Store(false) // with -Q the policy requires one
	// What came in clear text may be from another host than the client, on the way between.
	if r.s.client.User.Load() != nil {
		r.s.setUser(nil)
		r.s.sendAttrs()
	}
	r.s.client.Container.Awaited = false
	r.s.client.Container.Set("")
	return true, nil
}

// A handshakeError is why a TLS handshake has failed.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// setContainer takes the name of the container that a client chose in CREDS. It
// returns the errors that are the answer.
func (s *session) setContainer(b []byte) []pdu.Errno {
	var m pdu.Attr
	if _, err := pdu.ParseInto(b, &m); err != nil || m.Code != pdu.AttrContainer {
		s.checkAccount() // it goes on without one
		return []pdu.Errno{pdu.ErrnoIPC}
	}
	if !clients.ValidContainer(m.Value) {
		s.checkAccount()
		return []pdu.Errno{pdu.ErrnoEINVAL}
	}
	s.client.Container.Set(string(m.Value))
	return s.checkAccount()
}
