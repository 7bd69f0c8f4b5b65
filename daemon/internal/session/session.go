package session

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A session is one client. It answers one request after the other. It has a goroutine from
// the client's first request until the client has sent nothing for a while. It has no
// buffer between two requests.
//
// One goroutine at a time uses the fields: that of the session or, before there is one and while
// the connection is idle, the acceptor's. The client is what others may know of the session.
type session struct {
	srv        *Server
	client     *clients.Client
	stream     conn.Conn // client.Conn, or the conn.Secure made from it
	contexts   contexts
	holds      holdings
	cpu        *slots.Slot
	inProgress fairqueue.Use // of Server.inProgress
	begun      bool          // inProgress has begun
	history    requestHistory
	current    *request // of HandleInput; nil outside of it

	greeted  bool
	answered bool
	err      error     // why the session ends
	fault    pdu.Errno // the same as a code; 0 if the client has closed the connection
}

// newSession returns the session of a new connection, which has no number yet.
func newSession(srv *Server, c conn.Conn) *session {
	s := &session{srv: srv, client: clients.New(c, srv.newKey(c.Peer())), stream: c}
	srv.openHoldings(&s.holds, s.client)
	s.cpu = srv.slots.Slot(&s.client.Key)
	s.client.NeedsCert.Store(srv.admission.needsCert(s.client.Peer))
	return s
}

// accept returns the greeting, or nil for a client that is not admitted.
func (s *session) accept() []byte {
	refusal := s.admit()
	s.srv.cfg.Debug.Log(diag.DebugClients, "client[{client}] {address} has connected, seq={seq}", "client", s.client.Num, "address", s.client.Addr, "seq", s.client.Seq)
	s.debugAccess(refusal)
	if s.srv.cfg.Trace.On(diag.TraceConns) {
		s.srv.cfg.Trace.Event(diag.TraceConns, "New client: [%d] addr=%s, fd=%d, seq=%d", s.client.Num, s.client.Addr, s.client.Conn.FD(), s.client.Seq)
	}
	if refusal != 0 {
		s.client.Refuse(refusal)
		s.err = clients.ErrRefused
		return nil
	}
	s.greeted = true
	b := s.greeting(0)
	s.countOut(b)
	return b
}

// greeting returns the first PDU: what the server can do, or why it will not.
func (s *session) greeting(refusal pdu.Errno) []byte {
	m := pdu.Error{Greeting: true}
	if refusal < 0 {
		m.Code = pdu.GreetingCode(refusal)
	} else {
		m.Info = pdu.GreetingInfo(s.srv.admission.features())
	}
	b, err := pdu.Append(nil, 0, &m)
	if err != nil {
		panic(err) // it has a fixed length
	}
	return b
}

// First implements conn.Session. It handles the first CREDS PDU, so that a client
// which connects and waits needs no goroutine. It runs on the goroutine of the acceptor, so
// it waits for nothing: it takes no slot, and Serve looks up accounts.
func (s *session) First(in []byte) (reply []byte, handled bool) {
	n, err := pdu.Frame(in, s.srv.cfg.MaxPDU)
	_, t, _ := pdu.Header(in)
	if err != nil || n != len(in) || t != pdu.TypeCreds || s.client.Version.Load() != 0 || s.srv.admission.credsReqd.Load() {
		return nil, false
	}
	version, flags, err := parseCreds(in)
	if flags&(pdu.FeatureSecure|pdu.FeatureAuth|pdu.FeatureCredsReqd) != 0 {
		return nil, false
	}
	refusal, known := s.setCreds(version, flags, err)
	if known {
		done, err := s.client.Grant.TryLogin(s.client.Account())
		if !done {
			s.client.Version.Store(0) // a reload requires accounts from now on
			return nil, false
		}
		refusal = s.checked(err)
	}
	s.debugAuth()
	s.countIn(in)
	for _, code := range refusal {
		n := len(reply)
		reply = appendError(reply, code)
		s.countOut(reply[n:])
	}
	return reply, true
}

// Disconnected implements conn.Session.
func (s *session) Disconnected() {
	s.err = io.EOF
	s.end()
}

// Serve implements conn.Session.
func (s *session) Serve() { s.srv.coroutines.Serve(s) }

// Await implements transport.Session: it waits for input.
func (s *session) Await() bool {
	err, tooMany := s.err, false
	if err == nil {
		tooMany, err = s.awaitInput()
	}
	switch {
	case err == nil:
		return true
	case errors.Is(err, conn.ErrParked): // another goroutine may have s by now
		return false
	}
	s.err = err
	if !tooMany { // no slot for what is closed at once
		s.cpu.Take() // thousands may end at a time
	}
	s.end()
	return false
}

// awaitInput waits for input, and until it may be handled. TooMany reports that the client is one
// too many of those that wait for their first answer.
func (s *session) awaitInput() (tooMany bool, err error) {
	if err := s.stream.Wait(); err != nil {
		return false, err
	}
	if err := s.awaitAnswer(); err != nil {
		return true, err
	}
	s.begin()
	if s.srv.slots.Busy() { // there may be many that wait
		s.stream.Compact()
	}
	s.cpu.Take()
	if s.srv.calls.Ended.Load() {
		return false, io.EOF
	}
	return false, nil
}

// HandleInput implements transport.Session: it answers the client.
func (s *session) HandleInput(c *transport.Coroutine) {
	r := s.history.acquire()
	r.s, s.current = s, r
	r.calls.Config, r.calls.Client, r.calls.Slot, r.calls.Coroutine = &s.srv.calls, s.client, s.cpu, c
	n, err := s.stream.Read(r.in[:cap(r.in)])
	r.in = r.in[:n]
	if n > 0 {
		err = r.answer()
	}
	s.err = err
	s.dropRequest()
	s.current = nil
	s.history.release(r)
	s.endProgress()
	s.answered = true
	s.noAnswer()
	s.cpu.Release()
}

// end ends the session: it notifies agents, logs, and closes the connection.
func (s *session) end() {
	if !errors.Is(s.err, clients.ErrRefused) {
		s.logEnd(s.err)
	}
	if s.srv.cfg.Trace.On(diag.TraceConns) {
		err := ""
		if s.fault != 0 {
			err = fmt.Sprintf(", err=%d: %v", int32(s.fault), s.fault)
		}
		s.srv.cfg.Trace.Event(diag.TraceConns, "End client: [%d] fd=%d%s", s.client.Num, s.client.Conn.FD(), err)
	}
	s.client.Grant.Release()
	s.closeHoldings()
	s.endProgress()
	s.srv.cfg.Debug.Log(diag.DebugClients, "client[{client}] {address} has gone", "client", s.client.Num, "address", s.client.Addr)
	s.srv.Missing.Forget(s.client)
	s.client.SendEnd(s.srv.cfg.Routes)
	s.srv.Clients.Remove(s.client)
	last := s.lastBytes()
	s.cpu.Release() // Close may wait for the client
	s.stream.Close(last)
	s.noAnswer()
}

// lastBytes returns the PDU with the reason for a refused client, or nil.
func (s *session) lastBytes() (b []byte) {
	if !errors.Is(s.err, clients.ErrRefused) {
		return nil
	}
	code := s.client.Refusal()
	if s.greeted {
		b = appendError(nil, code)
	} else {
		s.srv.logViolation(s.client, code)
		b = s.greeting(code)
	}
	s.countOut(b)
	return b
}

// logEnd logs the end of a session that the client did not ask for.
func (s *session) logEnd(err error) {
	var bad *badHeader
	var handshake *handshakeError
	switch {
	case errors.As(err, &handshake):
		s.srv.cfg.Limiter.Warn("client tls "+s.client.Origin(), "client[{client}] {address} is disconnected: {error}", "client", s.client.Num, "address", s.client.Addr, "error", err)
	case errors.Is(err, errBeforeCreds), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return // clients may disconnect at any time
	case errors.As(err, &bad):
		s.srv.cfg.Limiter.Log(slog.LevelError, "client header "+bad.err.Error(), "__pmGetPDU: fd={fd} {error}; client[{client}] {address}",
			"fd", s.client.Conn.FD(), "error", bad, "client", s.client.Num, "address", s.client.Addr)
	case errors.Is(err, conn.ErrRights):
		s.srv.cfg.Limiter.Warn("client rights", "client[{client}] {address} (pid {client_pid}, uid {uid}) {error} and is disconnected",
			"client", s.client.Num, "address", s.client.Addr, "client_pid", s.client.Conn.Peer().PID, "uid", s.client.Conn.Peer().UID, "error", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.srv.cfg.Limiter.Warn("client timeout", "pduread: timeout (after {timeout} sec) in the middle of a PDU on fd={fd}; client[{client}] {address}",
			"timeout", fmt.Sprintf("%.3f", s.srv.cfg.RequestTimeout().Seconds()), "fd", s.client.Conn.FD(), "client", s.client.Num, "address", s.client.Addr)
	default:
		s.srv.cfg.Limiter.Warn("client error", "client[{client}] {address} is disconnected: {error}", "client", s.client.Num, "address", s.client.Addr, "error", err)
	}
	s.fault = calls.Errno(err)
}

// A badHeader is the head of what no PDU can be read from, said as PCP's QA
// knows it.
type badHeader struct {
	len, max int
	t        pdu.Type
	err      error
}

func (e *badHeader) Unwrap() error { return e.err }

func (e *badHeader) Error() string {
	switch {
	case errors.Is(e.err, pdu.ErrTooLong):
		return fmt.Sprintf("type=%#x bad PDU len=%d in hdr exceeds maximum client PDU size (%d)", int32(e.t), e.len, e.max)
	case errors.Is(e.err, pdu.ErrLength):
		return fmt.Sprintf("illegal PDU len=%d in hdr", e.len)
	}
	return e.err.Error()
}
