package daemon

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// exchange sends call and appends the answer to *dst. If that is an ERROR
// PDU, or there is none, *dst stays as it was and the error, which errnoOf
// knows, says why.
func (s *session) exchange(a *agent, l *agentConn, call *transport.Call, dst *[]byte) error {
	call.Turn = s.coroutine
	call.MayBlock = s.conn.Exclusive()
	reply, err := l.Send(call)
	if err != nil {
		s.d.trace.Failure(true, l.Out, call.Req, err, errnoOf(err))
		return s.d.transportError(a, l, err)
	}
	return s.receive(a, l, call, reply, dst)
}

// receive is the second half of exchange.
func (s *session) receive(a *agent, l *agentConn, call *transport.Call, reply transport.Reply, dst *[]byte) error {
	n, since := len(*dst), time.Now()
	b, err := reply.Recv(*dst)
	if err != nil {
		if err == transport.ErrLate {
			a.latency.requestAbandoned()
		}
		s.d.trace.Failure(false, l.In, call.Req, err, errnoOf(err))
		return s.d.transportError(a, l, err)
	}
	if !call.Batched {
		since = call.Began
	}
	a.latency.answered(call.Began, since, call.Done)
	*dst = b
	_, t, _ := pdu.Header(b[n:])
	if t != pdu.TypeError {
		return nil
	}
	var e pdu.Error
	if _, err := pdu.ParseInto(b[n:], &e); err != nil {
		return s.d.protocolError(a, l, err)
	}
	*dst = b[:n]
	_, asked, _ := pdu.Header(call.Req)
	switch {
	case e.Code >= 0 && asked == pdu.TypeResult: // C pmcd takes any for success
		return nil
	case e.Code >= 0: // never a valid answer
		return pdu.ErrnoGeneric
	}
	s.d.trace.Failure(false, l.In, call.Req, e.Code, errnoOf(e.Code))
	if e.Code == pdu.ErrnoIPC || e.Code == pdu.ErrnoTimeout {
		switch asked { // a PMDA that says so is lost, for these
		case pdu.TypeFetch, pdu.TypeResult, pdu.TypeTextReq:
			s.d.disconnect(a, l, fmt.Errorf("it replied with an error that ends the connection: %w", e.Code))
		}
	}
	return e.Code
}

// transportError returns what err, of an exchange with a, means for the client. It
// disconnects a if the transport has ended.
func (d *Daemon) transportError(a *agent, l *agentConn, err error) error {
	a.latency.requestFailed()
	if err == transport.ErrLate || err == transport.ErrNotReady {
		return err
	}
	d.disconnect(a, l, nil)
	switch {
	case err == transport.ErrClosed: // by pmcd: it is being disconnected or replaced
		return pdu.ErrnoNoAgent
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return pdu.ErrnoEPIPE // it died while idle
	}
	return pdu.ErrnoIPC
}

// protocolError disconnects a because of a reply that makes no sense.
func (d *Daemon) protocolError(a *agent, l *agentConn, err error) error {
	a.latency.requestFailed()
	d.disconnect(a, l, err)
	return pdu.ErrnoIPC
}

// sendPart sends p.req to the agent of a domain, with what else call says. If
// there is no error the connection is held until the answer is received.
func (s *session) sendPart(w *work, p *part, domain int, call *transport.Call) (err error) {
	if p.agent, p.conn, err = s.available(w, domain); err != nil {
		return err
	}
	p.call = *call
	p.call.Batched, p.call.MayBlock, p.call.Req = true, s.conn.Exclusive(), p.req
	if p.sent, err = p.conn.Send(&p.call); err != nil {
		p.conn.inflight.release()
		s.d.trace.Failure(true, p.conn.Out, p.req, err, errnoOf(err))
		return s.d.transportError(p.agent, p.conn, err)
	}
	return nil
}

// receiveMessage waits for the answer to what sendPart has sent.
func (s *session) receiveMessage(p *part, m pdu.Message) error {
	defer p.conn.inflight.release()
	p.reply = p.reply[:0]
	err := s.receive(p.agent, p.conn, &p.call, p.sent, &p.reply)
	if err != nil {
		return err
	}
	// What cannot be decoded here cannot be at the client's either.
	if _, err = pdu.ParseInto(p.reply, m); err != nil {
		return s.d.protocolError(p.agent, p.conn, err)
	}
	return nil
}
