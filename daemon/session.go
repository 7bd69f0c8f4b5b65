package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
)

// A session is one client. It answers one request after the other. It has a
// goroutine from the client's first request until the client has been silent for a
// while, and no buffer between two requests.
type session struct {
	d     *Daemon
	conn  conn.Conn
	num   int32  // what agents know the client by; lowest free
	seq   uint32 // clients before it
	addr  string // of the peer, for messages
	since time.Time

	notices atomic.Uint32 // state changes that the client has not been notified of
	version atomic.Int32  // of the protocol, as the client has stated it; 0 before that
	refused atomic.Int32  // the pdu.Errno with which the client is refused, or 0
	grant   access.Conn   // what it may do

	// The following belong to the goroutine of the session.
	greeted    bool
	err        error           // that ends it
	coroutine  *transport.Turn // of this turn
	needsCert  bool            // and has none, as there is no TLS yet
	awaiting   bool            // it has announced the name of a container
	peer       access.Peer
	contexts   contexts  // with their profiles
	current    int32     // the context used last
	asked      domainSet // whose agents may know of the client
	largeTurns uint8     // for which requestScratch that has grown is used
	fault      pdu.Errno // why it has ended, if the client did not ask for it

	observed atomic.Pointer[string] // the hostname in its container; nil if that is not known

	mu        sync.Mutex // guards the following
	container string
	contained bool // it had one: agents have to forget it; changed by the goroutine of the session only
	whoami    string
	announced []pdu.Attr // what agents were told last
	left      bool       // the client has disconnected
}

// A connHandler makes sessions of connections.
type connHandler struct{ d *Daemon }

// Accept implements conn.Handler.
func (h connHandler) Accept(c conn.Conn) (conn.Session, []byte) {
	s := &session{d: h.d, conn: c, since: time.Now()}
	p := c.Peer()
	s.addr, s.peer = p.String(), accessPeer(p)
	s.needsCert = h.d.needsCert(s.peer)
	h.d.clients.add(s)
	return s, s.accept()
}

// accessPeer returns p as the access rules know it.
func accessPeer(p conn.Peer) access.Peer {
	switch {
	case p.Unix:
		return access.Peer{Family: access.Unix, HasUser: true, UID: p.UID, GID: p.GID}
	case p.Addr.Is6():
		return access.Peer{Family: access.IPv6, Addr: p.Addr}
	}
	return access.Peer{Family: access.Inet, Addr: p.Addr}
}

// accept returns the greeting, or nil for a client that is not admitted.
func (s *session) accept() []byte {
	refusal := s.admit()
	s.d.debug.Printf(diag.DebugClients, "client[%d] %s has connected, seq=%d", s.num, s.addr, s.seq)
	s.debugAccess(refusal)
	if s.d.trace.On(diag.TraceConns) {
		s.d.trace.Event(diag.TraceConns, "New client: [%d] addr=%s, fd=%d, seq=%d", s.num, s.addr, s.conn.FD(), s.seq)
	}
	if refusal != 0 {
		s.refused.Store(int32(refusal))
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
		m.Info = pdu.GreetingInfo(s.d.features())
	}
	b, err := pdu.Append(nil, 0, &m)
	if err != nil {
		panic(err) // it has a fixed length
	}
	return b
}

// features is what the greeting promises, and all of it works.
func (d *Daemon) features() pdu.Features {
	f := pdu.FeatureContainer | pdu.FeatureLabels | pdu.FeatureHighRes | pdu.FeatureDescs
	if d.credsReqd.Load() {
		f |= pdu.FeatureCredsReqd
	}
	if d.cfg.CertRequired {
		f |= pdu.FeatureCertReqd // though none can be given: there is no TLS yet
	}
	return f
}

// First implements conn.Session. It handles the first CREDS PDU, so that a client
// which connects and waits needs no goroutine. Where the rules have to look up an
// account, Serve does it.
func (s *session) First(in []byte) (reply []byte, handled bool) {
	n, err := pdu.Frame(in, s.d.cfg.MaxPDU)
	_, t, _ := pdu.Header(in)
	if err != nil || n != len(in) || t != pdu.TypeCreds || s.version.Load() != 0 || s.d.credsReqd.Load() {
		return nil, false
	}
	s.countIn(in)
	for _, code := range s.setCreds(in) {
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
func (s *session) Serve() { s.d.turnPool.Serve(s) }

// Await implements transport.Session: it waits for input.
func (s *session) Await() bool {
	if s.err == nil {
		err := s.conn.Wait()
		if err == nil {
			return true
		}
		if err == conn.ErrParked { // another goroutine may have s by now
			return false
		}
		s.err = err
	}
	s.end()
	return false
}

// RunTurn implements transport.Session: it answers the client.
func (s *session) RunTurn(t *transport.Turn) {
	s.coroutine = t
	w := s.newWork()
	n, err := s.conn.Read(w.in[:cap(w.in)])
	w.in = w.in[:n]
	if n > 0 {
		err = s.answer(w)
	}
	s.err = err
	w.release(s)
}

// answer handles all PDUs in w.in, and reads the rest of one that is there only in
// part. The rest has to arrive within the time that an agent would have.
func (s *session) answer(w *work) error {
	partial := false
	for {
		if s.refused.Load() != 0 {
			return errRefused
		}
		n, err := pdu.Frame(w.in[w.next:], s.d.cfg.MaxPDU)
		if err != nil {
			claimed, t, _ := pdu.Header(w.in[w.next:])
			return &badHeader{int(claimed), s.d.cfg.MaxPDU, t, err}
		}
		if n > 0 && len(w.in)-w.next >= n {
			b := w.in[w.next : w.next+n : w.next+n]
			w.next += n
			if err := s.dispatch(w, b); err != nil {
				return err
			}
			if w.next == len(w.in) {
				return nil
			}
			partial = false
			continue
		}
		if !partial {
			partial = true
			var deadline time.Time
			if t := time.Duration(s.d.timeout.Load()); t > 0 {
				deadline = time.Now().Add(t)
			}
			s.conn.SetReadDeadline(deadline)
		}
		if err := s.more(w, n); err != nil {
			return err
		}
	}
}

// more reads more of a PDU of n bytes, or of one of unknown length if n is 0.
// Memory follows the bytes received.
func (s *session) more(w *work, n int) error {
	if w.next > 0 {
		w.in = w.in[:copy(w.in, w.in[w.next:])]
		w.next = 0
	}
	const chunk = 16 << 10
	if want := min(max(n-len(w.in), 1), chunk); cap(w.in)-len(w.in) < want {
		w.in = append(w.in, make([]byte, want)...)[:len(w.in)]
	}
	got, err := s.conn.Read(w.in[len(w.in):cap(w.in)])
	w.in = w.in[:len(w.in)+got]
	if got > 0 {
		return nil
	}
	return err
}

// end ends the session: nothing is left of it.
func (s *session) end() {
	if s.err != errRefused {
		s.complain(s.err)
	}
	if s.d.trace.On(diag.TraceConns) {
		err := ""
		if s.fault != 0 {
			err = fmt.Sprintf(", err=%d: %v", int32(s.fault), s.fault)
		}
		s.d.trace.Event(diag.TraceConns, "End client: [%d] fd=%d%s", s.num, s.conn.FD(), err)
	}
	s.grant.Release()
	s.d.debug.Printf(diag.DebugClients, "client[%d] %s has gone", s.num, s.addr)
	s.leave()
	s.d.clients.remove(s)
	s.conn.Close(s.lastBytes())
}

// lastBytes returns the PDU that tells a refused client why, or nil.
func (s *session) lastBytes() (b []byte) {
	if s.err != errRefused {
		return nil
	}
	code := pdu.Errno(s.refused.Load())
	if s.greeted {
		b = appendError(nil, code)
	} else {
		s.violation(code)
		b = s.greeting(code)
	}
	s.countOut(b)
	return b
}

// complain logs the end of a session that the client did not ask for.
func (s *session) complain(err error) {
	var bad *badHeader
	switch {
	case errors.Is(err, errBeforeCreds), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return // clients come and go
	case errors.As(err, &bad):
		s.d.limiter.Log(zap.ErrorLevel, "client header "+bad.err.Error(), "__pmGetPDU: fd=%d %v; client[%d] %s", s.conn.FD(), bad, s.num, s.addr)
	case errors.Is(err, conn.ErrRights):
		s.d.limiter.Printf("client rights", "client[%d] %s (pid %d, uid %d) %v and is disconnected", s.num, s.addr, s.conn.Peer().PID, s.conn.Peer().UID, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.d.limiter.Printf("client timeout", "pduread: timeout (after %.3f sec) in the middle of a PDU on fd=%d; client[%d] %s",
			time.Duration(s.d.timeout.Load()).Seconds(), s.conn.FD(), s.num, s.addr)
	default:
		s.d.limiter.Printf("client error", "client[%d] %s: %v", s.num, s.addr, err)
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
