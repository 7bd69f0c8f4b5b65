package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// An exchange is what a request does with agents: it finds their connections, sends
// to them and receives the replies.
type exchange struct {
	*session
	*requestScratch
}

// roundTrip sends call and appends the answer to *dst. If that is an ERROR
// PDU, or there is none, *dst stays as it was and the error, which errnoOf
// knows, says why.
func (r exchange) roundTrip(a *agentset.Agent, c *agentset.Conn, call *transport.Call, dst *[]byte) error {
	call.Key, call.Turn = &r.client.Key, r.turn
	call.MayBlock = r.stream.Exclusive()
	call.Waiter = waiter{r.requestScratch}
	reply, err := c.Send(call)
	if err != nil {
		defer r.cpu.TakeAgain()
		return r.failed(c, call, true, err)
	}
	return r.receive(a, c, call, reply, dst)
}

// receive is the second half of roundTrip.
func (r exchange) receive(a *agentset.Agent, c *agentset.Conn, call *transport.Call, reply transport.Reply, dst *[]byte) error {
	n := len(*dst)
	b, err := r.recv(a, c, call, reply, *dst)
	if err != nil {
		return err
	}
	*dst = b
	if _, t, _ := pdu.Header(b[n:]); t != pdu.TypeError {
		return nil
	}
	*dst = b[:n]
	return r.errorReply(a, c, call, b[n:])
}

// recv appends the answer to call to dst. That may be an ERROR PDU.
func (r exchange) recv(a *agentset.Agent, c *agentset.Conn, call *transport.Call, reply transport.Reply, dst []byte) ([]byte, error) {
	if _, ok := c.Transport.(*transport.Concurrent); ok {
		r.cpu.TakeAgain() // many may call such an agent at a time
	}
	since := time.Now()
	b, err := reply.Recv(r.borrow(dst))
	if err != nil {
		if errors.Is(err, transport.ErrLate) {
			a.RequestAbandoned()
		}
		defer r.cpu.TakeAgain()
		return nil, r.failed(c, call, false, err)
	}
	r.cpu.TakeAgain()
	if !call.Batched {
		since = call.Began
	}
	a.RequestAnswered(call.Began, since, call.Done)
	return b, nil
}

// failed returns the error of a call for which Send or Recv has failed. If the agent has to
// be disconnected, that waits for its exit status. The caller takes a slot again.
func (r exchange) failed(c *agentset.Conn, call *transport.Call, sending bool, err error) error {
	if err != transport.ErrLate && err != transport.ErrNotReady {
		r.cpu.Release()
	}
	fd := c.In
	if sending {
		fd = c.Out
	}
	r.srv.cfg.Trace.Failure(sending, fd, call.Req, err, errnoOf(err))
	return c.TransportError(err)
}

// errorReply returns the error that an agent has answered to call with b, an ERROR PDU.
func (r exchange) errorReply(a *agentset.Agent, c *agentset.Conn, call *transport.Call, b []byte) error {
	var e pdu.Error
	if _, err := pdu.ParseInto(b, &e); err != nil {
		return c.ProtocolError(err)
	}
	_, asked, _ := pdu.Header(call.Req)
	switch {
	case e.Code >= 0 && asked == pdu.TypeResult: // C pmcd takes any for success
		return nil
	case e.Code >= 0: // never a valid answer
		return pdu.ErrnoGeneric
	}
	r.srv.cfg.Trace.Failure(false, c.In, call.Req, e.Code, e.Code)
	r.logTooLong(asked, a, e.Code)
	if e.Code == pdu.ErrnoIPC || e.Code == pdu.ErrnoTimeout {
		switch asked { // a PMDA that replies this to one of these is disconnected
		case pdu.TypeFetch, pdu.TypeResult, pdu.TypeTextReq:
			c.Disconnect(fmt.Errorf("it replied with an error that ends the connection: %w", e.Code))
		}
	}
	return e.Code
}

// sendSub sends p.req to the agent of a domain, with what else call says. If
// there is no error, p.conn must be released after the reply was received.
func (r exchange) sendSub(p *subrequest, domain int, call *transport.Call) (err error) {
	if p.agent, p.conn, err = r.available(domain); err != nil {
		return err
	}
	p.call = *call
	p.call.Key, p.call.Turn, p.call.MayBlock, p.call.Req = &r.client.Key, r.turn, r.stream.Exclusive(), p.req
	p.call.Waiter = waiter{r.requestScratch}
	if p.sent, err = p.conn.Send(&p.call); err != nil {
		defer r.cpu.TakeAgain()
		defer p.conn.Release()
		return r.failed(p.conn, &p.call, true, err)
	}
	return nil
}

// receiveMessage waits for the answer to what sendSub has sent.
func (r exchange) receiveMessage(p *subrequest, m pdu.Message) error {
	defer p.conn.Release()
	p.reply = p.reply[:0]
	err := r.receive(p.agent, p.conn, &p.call, p.sent, &p.reply)
	if err != nil {
		return err
	}
	// If it cannot be decoded here, a client cannot decode it either.
	if _, err = pdu.ParseInto(p.reply, m); err != nil {
		return p.conn.ProtocolError(err)
	}
	return nil
}

// available is acquire for a request that a fenced agent does not get.
func (r exchange) available(domain int) (*agentset.Agent, *agentset.Conn, error) {
	a, c := r.acquire(domain)
	switch {
	case c == nil:
		return a, nil, pdu.ErrnoNoAgent
	case a.Fenced():
		c.Release()
		return a, nil, pdu.ErrnoPMDAFenced
	}
	return a, c, nil
}

// acquire returns the agent of a domain, or nil if there is none, and its connection
// for one request, or nil if the agent is down or pmcd ends. The caller must release the
// connection. If a reload has replaced the agent since the request came, it is the new
// one.
func (r exchange) acquire(domain int) (*agentset.Agent, *agentset.Conn) {
	for {
		a := r.routes.Agent(domain)
		switch {
		case a == nil:
			return nil, nil
		case r.srv.aborted.Load():
			return a, nil
		}
		c := a.Conn()
		if c == nil {
			select {
			case <-a.Started(): // usually it is down
				c = a.Conn()
			default:
				r.wait(func() { c = a.AwaitConn() })
			}
		}
		if c != nil && c.Acquire() {
			r.client.Asked.Add(domain)
			return a, c
		}
		now := r.srv.cfg.Routes()
		if now == r.routes {
			return a, nil
		}
		r.routes = now
	}
}

// ask sends a request to the agent of a domain. The reply is in r.ans, and decoded in
// m. Unknown is the error for a domain without an agent.
func (r exchange) ask(domain int, profile *pdu.Profile, req []byte, unknown pdu.Errno) (m pdu.Message, err error) {
	a, c, err := r.available(domain)
	switch {
	case a == nil:
		return nil, unknown
	case err != nil:
		return nil, err
	}
	defer c.Release()
	return r.askAgent(a, c, profile, req)
}

// askAgent is ask for an agent whose connection c the caller has acquired.
func (r exchange) askAgent(a *agentset.Agent, c *agentset.Conn, profile *pdu.Profile, req []byte) (m pdu.Message, err error) {
	r.call = transport.Call{
		Origin:  agents.Origin{Client: r.client.Num},
		Profile: profile,
		Timeout: r.srv.cfg.RequestTimeout(),
		Req:     req,
	}
	if profile != nil {
		r.call.Origin.Context = r.contexts.current
	}
	r.ans = r.ans[:0]
	if err := r.roundTrip(a, c, &r.call, &r.ans); err != nil {
		return nil, err
	}
	// If it cannot be decoded here, a client cannot decode it either.
	if _, m, err = pdu.Parse(r.ans); err != nil {
		return nil, c.ProtocolError(err)
	}
	return m, nil
}
