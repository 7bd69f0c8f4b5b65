package daemon

import (
	"fmt"
	"time"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// exchange sends call and appends the answer to *dst. If that is an ERROR
// PDU, or there is none, *dst stays as it was and the error, which errnoOf
// knows, says why.
func (s *session) exchange(a *agentset.Agent, l *agentset.Conn, call *transport.Call, dst *[]byte) error {
	call.Turn = s.coroutine
	call.MayBlock = s.conn.Exclusive()
	reply, err := l.Send(call)
	if err != nil {
		s.d.trace.Failure(true, l.Out, call.Req, err, errnoOf(err))
		return l.TransportError(err)
	}
	return s.receive(a, l, call, reply, dst)
}

// receive is the second half of exchange.
func (s *session) receive(a *agentset.Agent, l *agentset.Conn, call *transport.Call, reply transport.Reply, dst *[]byte) error {
	n, since := len(*dst), time.Now()
	b, err := reply.Recv(*dst)
	if err != nil {
		if err == transport.ErrLate {
			a.RequestAbandoned()
		}
		s.d.trace.Failure(false, l.In, call.Req, err, errnoOf(err))
		return l.TransportError(err)
	}
	if !call.Batched {
		since = call.Began
	}
	a.RequestAnswered(call.Began, since, call.Done)
	*dst = b
	_, t, _ := pdu.Header(b[n:])
	if t != pdu.TypeError {
		return nil
	}
	var e pdu.Error
	if _, err := pdu.ParseInto(b[n:], &e); err != nil {
		return l.ProtocolError(err)
	}
	*dst = b[:n]
	_, asked, _ := pdu.Header(call.Req)
	switch {
	case e.Code >= 0 && asked == pdu.TypeResult: // C pmcd takes any for success
		return nil
	case e.Code >= 0: // never a valid answer
		return pdu.ErrnoGeneric
	}
	s.d.trace.Failure(false, l.In, call.Req, e.Code, e.Code)
	if e.Code == pdu.ErrnoIPC || e.Code == pdu.ErrnoTimeout {
		switch asked { // a PMDA that says so is lost, for these
		case pdu.TypeFetch, pdu.TypeResult, pdu.TypeTextReq:
			l.Disconnect(fmt.Errorf("it replied with an error that ends the connection: %w", e.Code))
		}
	}
	return e.Code
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
		p.conn.Release()
		s.d.trace.Failure(true, p.conn.Out, p.req, err, errnoOf(err))
		return p.conn.TransportError(err)
	}
	return nil
}

// receiveMessage waits for the answer to what sendPart has sent.
func (s *session) receiveMessage(p *part, m pdu.Message) error {
	defer p.conn.Release()
	p.reply = p.reply[:0]
	err := s.receive(p.agent, p.conn, &p.call, p.sent, &p.reply)
	if err != nil {
		return err
	}
	// What cannot be decoded here cannot be at the client's either.
	if _, err = pdu.ParseInto(p.reply, m); err != nil {
		return p.conn.ProtocolError(err)
	}
	return nil
}
