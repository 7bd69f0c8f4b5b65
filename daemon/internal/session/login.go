package session

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/pdu"
)

// A client logs in by SASL, in ATTR PDUs after its CREDS PDU. See package sasl.

// DefaultLoginTime is how long a client may take for each message of a login, as in C pmcd.
const DefaultLoginTime = 10 * time.Second

// errnoNoMech is the code of SASL for a mechanism that is not offered (SASL_NOMECH).
const errnoNoMech pdu.Errno = -21344 - 4

// clearMechanisms are those that send the password in clear text.
var clearMechanisms = []string{"PLAIN", "LOGIN"}

// wantsLogin reports whether a client with these flags is to log in. A client at the Unix
// socket that only states that it knows of required credentials has some already.
func (s *session) wantsLogin(flags pdu.Features) bool {
	if flags&^knownFlags != 0 || flags&pdu.FeatureCompress != 0 {
		return false
	}
	if s.client.Peer.HasUser && flags&pdu.FeatureCredsReqd != 0 {
		return false
	}
	return flags&(pdu.FeatureAuth|pdu.FeatureCredsReqd) != 0 && s.srv.admission.loginError() == nil
}

// login serves the login of a client. It reports false if the login has failed, and the
// client has got the error. Then the client has no user, whatever it was before.
func (r *request) login() (ok bool, err error) {
	defer r.s.debugAuth()
	var name string
	r.s.wait(func() { name, err = r.exchangeLogin() })
	var failed *loginError
	var bad *badHeader
	switch {
	case errors.As(err, &failed):
		r.s.logLogin(failed)
		r.s.setUser(nil)
		r.s.sendAttrs()
		return false, r.fail(failed.code)
	case errors.As(err, &bad): // what follows the header cannot be skipped
		return false, cmp.Or(r.fail(pdu.ErrnoIPC), err)
	case err != nil:
		return false, err
	}
	r.s.srv.cfg.Log.Info("Successful authentication for user {user:q}", "user", name, "client", r.s.client.Num, "address", r.s.client.Addr)
	var u *clients.User
	r.s.wait(func() { u = r.s.srv.lookUp(name) })
	r.s.setUser(u)
	return true, nil
}

// A loginError is why a login has failed. The client gets the code.
type loginError struct {
	code pdu.Errno
	err  error
}

func (e *loginError) Error() string { return e.err.Error() }

// errEarly ends a session whose client sends much before it has the answer to its login.
var errEarly = errors.New("it sends more requests than one before it has the answer to its login")

// checkTime is how long checkClient waits for input.
const checkTime = time.Millisecond

// A disconnect is why a client is disconnected while its login waits for its turn.
type disconnect struct{ error }

// checkClient reads what the client sends, which is not needed yet: to notice when it
// disconnects. A client may send its first request right after its login. It returns a
// disconnect if there is a reason for one.
func (r *request) checkClient() error {
	defer r.s.cpu.Release() // in TLS, it took one to decrypt the input
	if len(r.in)-r.next > r.s.srv.cfg.MaxPDU {
		return disconnect{errEarly}
	}
	r.s.stream.SetReadDeadline(time.Now().Add(checkTime))
	if err := r.more(0); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return disconnect{err}
	}
	return nil
}

// exchangeLogin returns the name of the user that the client has logged in as. Errors other
// than a *loginError end the session.
func (r *request) exchangeLogin() (name string, err error) {
	r.s.BeforeWait() // logins have turns of their own
	ctx := r.s.srv.serving
	x, mechs, err := r.s.srv.admission.sasl().Begin(ctx, sasl.Login{SSF: r.s.cipherBits(), Key: r.s.client.Key, Check: r.checkClient})
	if err != nil {
		return "", loginErrorOf(err)
	}
	defer x.Close()
	offered := r.s.srv.offered(mechs, r.s.stream)
	answer := []byte(offered)
	for first := true; ; first = false {
		b, err := r.calls.Reply(&pdu.Attr{Value: answer})
		if err == nil {
			err = r.write(b)
		}
		if err != nil {
			return "", err
		}
		in, err := r.nextResponse()
		if err != nil {
			return "", err
		}
		if first {
			if err := r.checkMechanism(in, offered); err != nil {
				return "", err
			}
		}
		r.s.cpu.Release() // in TLS, it took one to decrypt the message
		challenge, done, user, err := x.Step(ctx, in)
		clear(in) // it may have a password
		switch {
		case err != nil:
			return "", loginErrorOf(err)
		case done:
			return user, nil
		}
		answer = challenge
	}
}

// loginErrorOf returns an error of package sasl as a *loginError, or that of a disconnect.
func loginErrorOf(err error) error {
	if gone, ok := errors.AsType[disconnect](err); ok {
		return gone.error
	}
	e := &loginError{code: pdu.ErrnoTimeout, err: err}
	errors.As(err, &e.code)
	if failed := (*sasl.Error)(nil); errors.As(err, &failed) && failed.Reason == "" {
		e.err = e.code
	}
	return e
}

// nextResponse waits for the next message of a login. It returns a copy, because checkClient
// moves and reads input while the login waits for its turn.
func (r *request) nextResponse() ([]byte, error) {
	limit := r.s.srv.cfg.LoginTime
	b, err := r.nextPDU(time.Now().Add(limit))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &loginError{code: pdu.ErrnoTimeout, err: fmt.Errorf("pduread: timeout (after %.3f sec)", limit.Seconds())}
	}
	if err != nil {
		return nil, err
	}
	_, t, _ := pdu.Header(b)
	var e pdu.Error
	var m pdu.Attr
	switch {
	case t == pdu.TypeError:
		if _, err := pdu.ParseInto(b, &e); err == nil && e.Code < 0 {
			return nil, &loginError{code: e.Code, err: fmt.Errorf("the client has ended it: %w", e.Code)}
		}
	case t == pdu.TypeAttr:
		// The code of the attribute does not matter.
		if len(b) >= pdu.HeaderLen+4 && len(b)-pdu.HeaderLen-4 <= sasl.MaxPayload {
			if _, err := pdu.ParseInto(b, &m); err == nil {
				return bytes.Clone(m.Value), nil
			}
		}
	}
	return nil, &loginError{code: pdu.ErrnoIPC, err: fmt.Errorf("%v PDU of %d bytes in a login", t, len(b))}
}

// nextPDU waits for the next PDU of the client until the deadline.
func (r *request) nextPDU(deadline time.Time) ([]byte, error) {
	for {
		n, err := pdu.Frame(r.in[r.next:], r.s.srv.cfg.MaxPDU)
		if err != nil {
			claimed, t, _ := pdu.Header(r.in[r.next:])
			return nil, &badHeader{int(claimed), r.s.srv.cfg.MaxPDU, t, err}
		}
		if n > 0 && len(r.in)-r.next >= n {
			b := r.in[r.next : r.next+n : r.next+n]
			r.next += n
			r.s.countIn(b)
			return b, nil
		}
		r.s.stream.SetReadDeadline(deadline)
		if err := r.more(n); err != nil {
			return nil, err
		}
	}
}

// offered returns the mechanisms that a client is offered of those that there are.
func (s *Server) offered(mechs string, c conn.Conn) string {
	if _, secure := c.(*conn.Secure); secure || c.Peer().Unix || !s.cfg.NoClearPasswords {
		return mechs
	}
	list := slices.DeleteFunc(strings.Fields(mechs), isClear)
	return strings.Join(list, " ")
}

// isClear reports whether a mechanism sends the password in clear text.
func isClear(mechanism string) bool { return hasMechanism(clearMechanisms, mechanism) }

// hasMechanism reports whether a mechanism is in a list. As for libsasl2, case does not matter.
func hasMechanism(list []string, mechanism string) bool {
	return slices.ContainsFunc(list, func(m string) bool { return strings.EqualFold(m, mechanism) })
}

// checkMechanism looks at the first message of a login: the name of a mechanism, up to a NUL.
// Only what was offered is used: libsasl2 takes other names, too, such as PLAIN-PLUS for PLAIN.
// A password in clear text is not for the network.
func (r *request) checkMechanism(in []byte, offered string) error {
	name, _, _ := bytes.Cut(in, []byte{0})
	mechanism := strings.ToUpper(string(name))
	_, secure := r.s.stream.(*conn.Secure)
	inClear := isClear(mechanism) && !secure && !r.s.client.Peer.HasUser
	switch {
	case len(in) == 0: // libsasl2 has an error of its own for it
	case inClear && r.s.srv.cfg.NoClearPasswords:
		return &loginError{code: errnoNoMech, err: fmt.Errorf("mechanism %s sends passwords in clear text, which --no-clear-passwords does not allow without TLS", mechanism)}
	case !hasMechanism(strings.Fields(offered), mechanism):
		return &loginError{code: errnoNoMech, err: errors.New("it uses a mechanism that was not offered")}
	case inClear:
		r.s.srv.cfg.Limiter.Warn("clear password", "client[{client}] {address} logs in by {mechanism} without TLS: its password is on the network in clear text; use TLS (pcps://), or refuse it with --no-clear-passwords",
			"client", r.s.client.Num, "address", r.s.client.Addr, "mechanism", mechanism)
	}
	return nil
}

// cipherBits returns the strength of the encryption of the connection.
func (s *session) cipherBits() int {
	if c, ok := s.stream.(*conn.Secure); ok {
		return c.Bits()
	}
	return 0
}

// setUser sets the user that the client has logged in as; nil is no user. The client loses the
// rights that it had, and checkAccount gives it those of the user. After a login that has failed,
// a client at the Unix socket, too, has to send CREDS again where an account is required.
func (s *session) setUser(u *clients.User) {
	s.client.User.Store(u)
	if s.client.Grant.Denied() != access.All {
		anonymous := s.client.Peer
		anonymous.HasUser = false
		s.client.Grant.Login(anonymous) // an error denies everything
	}
}

// lookUp returns the user of a name. As in pmcd 7, the operating system need not know it.
func (s *Server) lookUp(name string) *clients.User {
	u := &clients.User{Name: name}
	var err error
	u.UID, u.GID, err = s.cfg.LookupUser(name)
	u.Known = err == nil
	return u
}

// logLogin logs a login that has failed.
func (s *session) logLogin(e *loginError) {
	s.srv.cfg.Limiter.Log(slog.LevelWarn, "login "+s.client.Origin()+" "+e.code.Error(), "client[{client}] {address} cannot log in: {error}",
		"client", s.client.Num, "address", s.client.Addr, "error", e.err)
}
