package session

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/fairqueue"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/pdu"
)

// A session is one client. It answers one request after the other. It has a goroutine from
// the client's first request until the client has sent nothing for a while. It has no
// buffer between two requests.
//
// The goroutine of the session owns all fields, except those that are safe for all
// goroutines.
type session struct {
	srv        *Server
	conn       conn.Handle   // safe for all goroutines
	stream     conn.Conn     // conn, or what is in its TLS connection
	id         identity      // safe for all goroutines
	rights     rights        // safe for all goroutines
	told       toldAttrs     // safe for all goroutines
	notices    atomic.Uint32 // state changes that the client has not been notified of
	container  container
	contexts   contexts
	memory     clientMemory
	cpu        *slots.Slot
	inProgress requestSlot
	asked      domainSet // domains of agents that may know of the client
	scratch    scratchHistory
	current    *requestScratch // of the turn; nil between turns
	large      *fairqueue.Use  // of the reply that is being made; nil if it is not large

	greeted bool
	err     error     // why the session ends
	fault   pdu.Errno // the same as a code; 0 if the client has closed the connection
}

// newSession returns the session of a new connection, which has no number yet.
func newSession(srv *Server, c conn.Conn) *session {
	s := &session{srv: srv, conn: c, stream: c}
	p := c.Peer()
	s.id.key = srv.newKey(p)
	s.memory = openMemory(c, s.id.key.Group)
	s.cpu = srv.slots.Slot(&s.id.key)
	s.inProgress = srv.progress.open(&s.id.key)
	s.id.since, s.id.addr, s.id.peer = time.Now(), p.String(), accessPeer(p)
	s.rights.needsCert.Store(srv.admission.needsCert(s.id.peer))
	return s
}

// accept returns the greeting, or nil for a client that is not admitted.
func (s *session) accept() []byte {
	refusal := s.admit()
	s.srv.cfg.Debug.Log(diag.DebugClients, "client[{client}] {address} has connected, seq={seq}", "client", s.id.num, "address", s.id.addr, "seq", s.id.seq)
	s.debugAccess(refusal)
	if s.srv.cfg.Trace.On(diag.TraceConns) {
		s.srv.cfg.Trace.Event(diag.TraceConns, "New client: [%d] addr=%s, fd=%d, seq=%d", s.id.num, s.id.addr, s.conn.FD(), s.id.seq)
	}
	if refusal != 0 {
		s.rights.refuse(refusal)
		s.err = errRefused
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
	if err != nil || n != len(in) || t != pdu.TypeCreds || s.id.version.Load() != 0 || s.srv.admission.credsReqd.Load() {
		return nil, false
	}
	version, flags, err := parseCreds(in)
	if flags&(pdu.FeatureSecure|pdu.FeatureAuth|pdu.FeatureCredsReqd) != 0 {
		return nil, false
	}
	refusal, known := s.setCreds(version, flags, err)
	if known {
		done, err := s.rights.grant.TryLogin(s.id.account())
		if !done {
			s.id.version.Store(0) // a reload requires accounts from now on
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
func (s *session) Serve() { s.srv.turnPool.Serve(s) }

// Await implements transport.Session: it waits for input.
func (s *session) Await() bool {
	if s.err == nil {
		err := s.stream.Wait()
		if err == nil {
			if s.srv.slots.Busy() || !s.inProgress.tryBegin() { // there may be many that wait
				s.stream.Compact()
				s.begin()
			}
			s.cpu.Take()
			if !s.srv.aborted.Load() {
				return true
			}
			err = io.EOF
		}
		if errors.Is(err, conn.ErrParked) { // another goroutine may have s by now
			return false
		}
		s.err = err
	}
	s.cpu.Take() // thousands may end at a time
	s.end()
	return false
}

// RunTurn implements transport.Session: it answers the client.
func (s *session) RunTurn(t *transport.Turn) {
	r := request{exchange{s, s.scratch.acquire()}}
	r.turn, r.slot, s.current = t, s.cpu, r.requestScratch
	n, err := s.stream.Read(r.in[:cap(r.in)])
	r.in = r.in[:n]
	if n > 0 {
		err = r.answer()
	}
	s.err = err
	s.dropRequest()
	s.current = nil
	s.scratch.release(r.requestScratch)
	s.inProgress.end()
	s.cpu.Release()
}

// end ends the session: agents and the log are told, and the connection is closed.
func (s *session) end() {
	if !errors.Is(s.err, errRefused) {
		s.logEnd(s.err)
	}
	if s.srv.cfg.Trace.On(diag.TraceConns) {
		err := ""
		if s.fault != 0 {
			err = fmt.Sprintf(", err=%d: %v", int32(s.fault), s.fault)
		}
		s.srv.cfg.Trace.Event(diag.TraceConns, "End client: [%d] fd=%d%s", s.id.num, s.conn.FD(), err)
	}
	s.rights.grant.Release()
	s.closeMemory()
	s.inProgress.close()
	s.srv.cfg.Debug.Log(diag.DebugClients, "client[{client}] {address} has gone", "client", s.id.num, "address", s.id.addr)
	s.notifyGone()
	s.srv.clients.remove(s)
	last := s.lastBytes()
	s.cpu.Release() // Close may wait for the client
	s.stream.Close(last)
}

// lastBytes returns the PDU that tells a refused client why, or nil.
func (s *session) lastBytes() (b []byte) {
	if !errors.Is(s.err, errRefused) {
		return nil
	}
	code := s.rights.refusal()
	if s.greeted {
		b = appendError(nil, code)
	} else {
		s.logViolation(code)
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
		s.srv.cfg.Limiter.Warn("client tls "+s.id.origin(), "client[{client}] {address} is disconnected: {error}", "client", s.id.num, "address", s.id.addr, "error", err)
	case errors.Is(err, errBeforeCreds), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return // clients may disconnect at any time
	case errors.As(err, &bad):
		s.srv.cfg.Limiter.Log(slog.LevelError, "client header "+bad.err.Error(), "__pmGetPDU: fd={fd} {error}; client[{client}] {address}",
			"fd", s.conn.FD(), "error", bad, "client", s.id.num, "address", s.id.addr)
	case errors.Is(err, conn.ErrRights):
		s.srv.cfg.Limiter.Warn("client rights", "client[{client}] {address} (pid {client_pid}, uid {uid}) {error} and is disconnected",
			"client", s.id.num, "address", s.id.addr, "client_pid", s.conn.Peer().PID, "uid", s.conn.Peer().UID, "error", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.srv.cfg.Limiter.Warn("client timeout", "pduread: timeout (after {timeout} sec) in the middle of a PDU on fd={fd}; client[{client}] {address}",
			"timeout", fmt.Sprintf("%.3f", s.srv.cfg.RequestTimeout().Seconds()), "fd", s.conn.FD(), "client", s.id.num, "address", s.id.addr)
	default:
		s.srv.cfg.Limiter.Warn("client error", "client[{client}] {address} is disconnected: {error}", "client", s.id.num, "address", s.id.addr, "error", err)
	}
	s.fault = errnoOf(err)
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
