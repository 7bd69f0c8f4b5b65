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
	"github.com/gopcp/pmcd/agents/rawio"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
)

// A session is one connection of a client. It answers one request after the
// other; while it waits for the next it has one goroutine with a small stack, none
// before the first, and no buffer.
type session struct {
	d     *Daemon
	line  line
	num   int32  // what agents know the client by; lowest free
	seq   uint32 // clients before it
	addr  string // of the peer, for messages
	since time.Time

	notices atomic.Uint32 // state changes it was not told of
	version atomic.Int32  // of the protocol, as it has stated; 0 before that
	refused atomic.Int32  // the pdu.Errno with which a reload refuses it, or 0
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
	input      *work     // only while there is input
	largeTurns uint8     // for which that has grown
	tryRead    func(fd uintptr) bool
	readErr    error
	fault      pdu.Errno // why it has ended, if the client did not ask for it
	eager      int       // see fastLane
	vain       int       // waits in the fast lane, that quick requests have not made up for
	turn       uint64    // of all sessions, its last one
	yielded    time.Time // in the fast lane

	observed atomic.Pointer[string] // what the host is called in its container; nil if that is not known

	mu        sync.Mutex // guards the following
	container string
	contained bool // it had one: agents have to forget it; changed by the goroutine of the session only
	whoami    string
	creds     *syscall.Ucred // of the peer at a Unix socket
	announced []pdu.Attr     // what agents were told last
	left      bool           // it has gone
}

// Await implements transport.Session: it returns when there is input.
func (s *session) Await() bool {
	if s.err != nil || s.input != nil { // from the lobby
		return s.err == nil
	}
	if s.line.direct() && s.awaitLane() {
		return s.err == nil
	}
	lane, since := !s.d.lane.taken.Load(), time.Time{}
	if lane {
		since = time.Now()
	}
	s.err = s.line.raw.Read(s.tryRead)
	if s.err != nil && s.refused.Load() != 0 {
		s.err = errRefused
	} else if s.err == nil && s.readErr == rawio.ErrRights {
		s.err = s.readErr
	} else if s.err != nil || s.readErr != nil {
		s.err = io.EOF
	} else if lane {
		s.enterLane(since)
	}
	return s.err == nil
}

// RunTurn implements transport.Session: it answers the client.
func (s *session) RunTurn(t *transport.Turn) {
	s.turn = s.d.lane.turns.Add(1)
	w := s.input
	s.input, s.coroutine = nil, t
	s.err = s.answer(w)
	w.release(s)
}

// meet greets a client, unless it is not admitted.
func (s *session) meet() error {
	refusal := s.admit()
	s.d.debug.Printf(diag.DebugClients, "client[%d] %s has connected, seq=%d", s.num, s.addr, s.seq)
	s.debugAccess(refusal)
	if s.d.trace.On(diag.TraceConns) {
		s.d.trace.Event(diag.TraceConns, "New client: [%d] addr=%s, fd=%d, seq=%d", s.num, s.addr, s.line.number(), s.seq)
	}
	if refusal != 0 {
		s.refused.Store(int32(refusal))
		return errRefused
	}
	s.greeted = true
	if s.greet(0) != nil {
		return io.EOF
	}
	return nil
}

// End implements transport.Session: nothing is left of the session.
func (s *session) End() {
	defer s.d.sessionTasks.Done()
	defer s.line.close()
	s.leaveLane()
	if s.err != errRefused {
		s.complain(s.err)
	}
	if s.d.trace.On(diag.TraceConns) {
		err := ""
		if s.fault != 0 {
			err = fmt.Sprintf(", err=%d: %v", int32(s.fault), s.fault)
		}
		s.d.trace.Event(diag.TraceConns, "End client: [%d] fd=%d%s", s.num, s.line.number(), err)
	}
	s.grant.Release()
	s.d.debug.Printf(diag.DebugClients, "client[%d] %s has gone", s.num, s.addr)
	s.leave()
	s.d.clients.remove(s)
	if s.err == errRefused { // and has to be told
		say, code := s.sayError, pdu.Errno(s.refused.Load())
		if !s.greeted {
			s.violation(code)
			say = s.greet
		}
		s.dismiss(say, code)
	}
}

// greet sends the first PDU: what the server can do, or why it will not.
func (s *session) greet(refusal pdu.Errno) error {
	m := pdu.Error{Greeting: true}
	if refusal < 0 {
		m.Code = pdu.GreetingCode(refusal)
	} else {
		m.Info = pdu.GreetingInfo(s.d.features())
	}
	b, err := pdu.Append(nil, 0, &m)
	if err != nil {
		return err
	}
	return s.write(b)
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

// read is tried when there may be input. Only then does it take a buffer.
func (s *session) read(fd uintptr) bool {
	w := s.newWork()
	n, err := s.line.readNow(fd, w.in[:cap(w.in)])
	if n > 0 {
		w.in = w.in[:n]
		s.input = w
		return true
	}
	w.putBack()
	if err == syscall.EAGAIN {
		return false
	}
	s.readErr = io.EOF
	if err != nil {
		s.readErr = err
	}
	return true
}

// answer handles all PDUs in w.in, and reads the rest of one that is there
// only in part. That has to come in the time an agent would have.
func (s *session) answer(w *work) error {
	timed := false
	for {
		if s.refused.Load() != 0 {
			return errRefused
		}
		n, err := pdu.Frame(w.in[w.next:], s.d.cfg.MaxPDU)
		if err != nil {
			claimed, t, _ := pdu.Header(w.in[w.next:])
			return &badHeader{int(claimed), s.d.cfg.MaxPDU, t, err}
		}
		have := len(w.in) - w.next
		if n > 0 && have >= n {
			b := w.in[w.next : w.next+n : w.next+n]
			w.next += n
			if err := s.dispatch(w, b); err != nil {
				return err
			}
			if w.next == len(w.in) {
				if timed {
					return s.setReadDeadline(time.Time{})
				}
				return nil
			}
			if !timed {
				continue
			}
			timed = false
			if err := s.setReadDeadline(time.Time{}); err != nil {
				return err
			}
			continue
		}
		if !timed {
			timed = true
			s.leaveLane()
			if t := time.Duration(s.d.timeout.Load()); t > 0 {
				if err := s.setReadDeadline(time.Now().Add(t)); err != nil {
					return err
				}
			}
		}
		switch err := s.more(w, n); {
		case err != nil && s.refused.Load() != 0:
			return errRefused
		case err != nil:
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
	got, err := s.line.read(w.in[len(w.in):cap(w.in)])
	w.in = w.in[:len(w.in)+got]
	if got > 0 {
		return nil
	}
	return err
}

// complain logs the end of a session that the client did not ask for.
func (s *session) complain(err error) {
	var bad *badHeader
	switch {
	case errors.Is(err, errBeforeCreds), errors.Is(err, io.EOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return // clients come and go
	case errors.As(err, &bad):
		s.d.limiter.Log(zap.ErrorLevel, "client header "+bad.err.Error(), "__pmGetPDU: fd=%d %v; client[%d] %s", s.line.number(), bad, s.num, s.addr)
	case errors.Is(err, rawio.ErrRights):
		s.d.limiter.Printf("client rights", "client[%d] %s (pid %d, uid %d) %v and is disconnected", s.num, s.addr, s.creds.Pid, s.creds.Uid, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.d.limiter.Printf("client timeout", "pduread: timeout (after %.3f sec) in the middle of a PDU on fd=%d; client[%d] %s",
			time.Duration(s.d.timeout.Load()).Seconds(), s.line.number(), s.num, s.addr)
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
