// Package calls asks agents for a client: one agent, several at a time, or an agent for each
// item of a series. It has the buffers for that.
package calls

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/clients"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/daemon/internal/slots"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Config is what all Callers share.
type Config struct {
	Routes   func() *routes.Table
	Timeout  func() time.Duration // for an agent's reply; 0 is for ever
	MaxReply int                  // longest reply to a client, in bytes
	Ended    atomic.Bool          // no agent is asked any more
	Limiter  *diag.LogLimiter
	Trace    *diag.Trace
}

// A Caller asks agents for one request of a client after the other.
type Caller struct {
	Config    *Config
	Client    *clients.Client
	Slot      *slots.Slot          // of the client; it is given back before a wait, and taken again with the reply
	Coroutine *transport.Coroutine // that runs the session
	MayBlock  bool                 // see transport.Call
	Routes    *routes.Table        // for the current request

	Out    []byte             // the reply to the client
	Result relay.ResultWriter // writes to Out
	Req    []byte             // a request to an agent
	Ans    []byte             // its answer
	call   transport.Call     // with Req and Ans
	pooled int                // how many buffers BeforeWait has put into replyBuffers

	Subs   []Sub                 // of a request for several agents
	subOf  [routes.Domains]int16 // index in Subs plus 1; 0 between requests
	absent int16                 // the same of the Sub for all domains without an agent
	order  []*Sub                // in the order in which agents are asked
}

// NewCall returns a call with req, in a context of the client if there is a profile.
func (c *Caller) NewCall(context int32, profile *transport.Profile, req []byte) transport.Call {
	return transport.Call{
		Origin:    agents.Origin{Client: c.Client.Num, Context: context},
		Profile:   profile,
		Timeout:   c.Config.Timeout(),
		Req:       req,
		Key:       &c.Client.Key,
		Coroutine: c.Coroutine,
		Waiter:    c,
	}
}

func (c *Caller) send(conn *agentset.Conn, call *transport.Call) (transport.Reply, error) {
	call.MayBlock = c.MayBlock
	reply, err := conn.Send(call)
	if err != nil {
		defer c.Slot.TakeAgain()
		return nil, c.failed(conn, call, true, err)
	}
	return reply, nil
}

// receive appends the answer to call to *dst, as AppendReply does.
func (c *Caller) receive(a *agentset.Agent, conn *agentset.Conn, call *transport.Call, reply transport.Reply, dst *[]byte) error {
	n := len(*dst)
	b, err := c.recv(a, conn, call, reply, *dst)
	if err != nil {
		return err
	}
	*dst = b
	if _, t, _ := pdu.Header(b[n:]); t != pdu.TypeError {
		return nil
	}
	*dst = b[:n]
	return c.errorReply(a, conn, call, b[n:])
}

// recv appends the answer to call to dst. That may be an ERROR PDU.
func (c *Caller) recv(a *agentset.Agent, conn *agentset.Conn, call *transport.Call, reply transport.Reply, dst []byte) ([]byte, error) {
	if w, ok := conn.Transport.(*transport.Worker); ok && w.Concurrent() {
		c.Slot.TakeAgain() // many may call such an agent at a time
	}
	asked := time.Now()
	b, err := reply.Recv(c.fromPool(dst))
	if err != nil {
		if errors.Is(err, transport.ErrLate) {
			a.RequestAbandoned()
		}
		defer c.Slot.TakeAgain()
		return nil, c.failed(conn, call, false, err)
	}
	c.Slot.TakeAgain()
	if !call.Batched { // the session has waited for no other agent since Send
		asked = call.Began
	}
	a.RequestAnswered(call.Began, asked, call.Done)
	return b, nil
}

// failed returns the error of a call for which Send or Recv has failed. If the agent has to
// be disconnected, that waits for its exit status. The caller takes a slot again.
func (c *Caller) failed(conn *agentset.Conn, call *transport.Call, sending bool, err error) error {
	if err != transport.ErrLate && err != transport.ErrNotReady {
		c.Slot.Release()
	}
	fd := conn.In
	if sending {
		fd = conn.Out
	}
	c.Config.Trace.Failure(sending, fd, call.Req, err, Errno(err))
	return conn.TransportError(err)
}

// errorReply returns the error that an agent has answered to call with b, an ERROR PDU.
func (c *Caller) errorReply(a *agentset.Agent, conn *agentset.Conn, call *transport.Call, b []byte) error {
	var e pdu.Error
	if _, err := pdu.ParseInto(b, &e); err != nil {
		return conn.ProtocolError(err)
	}
	_, asked, _ := pdu.Header(call.Req)
	switch {
	case e.Code >= 0 && asked == pdu.TypeResult: // C pmcd takes any for success
		return nil
	case e.Code >= 0: // never a valid answer
		return pdu.ErrnoGeneric
	}
	c.Config.Trace.Failure(false, conn.In, call.Req, e.Code, e.Code)
	c.LogTooLong(asked, a, e.Code)
	if e.Code == pdu.ErrnoIPC || e.Code == pdu.ErrnoTimeout {
		switch asked { // a PMDA that replies this to one of these is disconnected
		case pdu.TypeFetch, pdu.TypeResult, pdu.TypeTextReq:
			conn.Disconnect(fmt.Errorf("it replied with an error that ends the connection: %w", e.Code))
		}
	}
	return e.Code
}

// Available returns the agent of a domain, or nil if there is none, and its connection for
// one request, which the caller must release. A fenced agent is available only if fencedToo is
// set, and none is when pmcd ends. If a reload has replaced the agent since the request came,
// it is the new one.
func (c *Caller) Available(domain int, fencedToo bool) (*agentset.Agent, *agentset.Conn, error) {
	for {
		a := c.Routes.Agent(domain)
		if a == nil || c.Config.Ended.Load() {
			return a, nil, pdu.ErrnoNoAgent
		}
		conn := a.Conn()
		if conn == nil {
			select {
			case <-a.Started(): // usually it is down
				conn = a.Conn()
			default:
				c.Slot.Wait(func() { conn = a.AwaitConn() })
			}
		}
		if conn != nil && conn.Acquire() {
			c.Client.Asked.Add(domain)
			if a.Fenced() && !fencedToo {
				conn.Release()
				return a, nil, pdu.ErrnoPMDAFenced
			}
			return a, conn, nil
		}
		now := c.Config.Routes()
		if now == c.Routes {
			return a, nil, pdu.ErrnoNoAgent
		}
		c.Routes = now
	}
}

// Ask sends call to the agent of a domain. The reply is decoded, and in Answer, too. Unknown
// is the error for a domain without an agent.
func (c *Caller) Ask(domain int, call *transport.Call, unknown pdu.Errno) (m pdu.Message, err error) {
	a, conn, err := c.Available(domain, false)
	switch {
	case a == nil:
		return nil, unknown
	case err != nil:
		return nil, err
	}
	defer conn.Release()
	return c.AskAgent(a, conn, call)
}

// AskAgent is Ask for an agent that Available has returned.
func (c *Caller) AskAgent(a *agentset.Agent, conn *agentset.Conn, call *transport.Call) (m pdu.Message, err error) {
	c.Ans = c.Ans[:0]
	if err := c.AppendReply(a, conn, call, &c.Ans); err != nil {
		return nil, err
	}
	// If it cannot be decoded here, a client cannot decode it either.
	if _, m, err = pdu.Parse(c.Ans); err != nil {
		return nil, conn.ProtocolError(err)
	}
	return m, nil
}

// AppendReply asks as AskAgent does, and appends the reply to *dst without decoding it. If it is
// an ERROR PDU, or there is none, *dst stays as it was and the error, which Errno knows, says why.
// dst is a pointer because BeforeWait may replace a large buffer while the request waits.
func (c *Caller) AppendReply(a *agentset.Agent, conn *agentset.Conn, call *transport.Call, dst *[]byte) error {
	c.call = *call
	reply, err := c.send(conn, &c.call)
	if err != nil {
		return err
	}
	return c.receive(a, conn, &c.call, reply, dst)
}

// Answer returns the reply that Ask has received, as the reply to the client.
func (c *Caller) Answer() []byte {
	relay.SetFrom(c.Ans, 0)
	return c.Ans
}

// Reply encodes m as the reply to the client.
func (c *Caller) Reply(m pdu.Message) ([]byte, error) {
	b, err := pdu.Append(c.Out[:0], 0, m)
	if err != nil {
		return nil, err
	}
	c.Out = b
	return b, nil
}

// LogTooLong logs err if it means that a reply is too long: the reply of a or, if a is nil,
// the reply to the client.
func (c *Caller) LogTooLong(request pdu.Type, a *agentset.Agent, err error) {
	if Errno(err) != pdu.ErrnoTooBig {
		return
	}
	from := "the reply"
	attrs := []any{"client", c.Client.Num, "address", c.Client.Addr, "request", request, "limit", c.Config.MaxReply}
	if a != nil {
		from = "the reply of agent {agent:q} (dom {domain})"
		attrs = append(attrs, "agent", a.Name(), "domain", a.Domain)
	}
	c.Config.Limiter.Warn("too long", "client[{client}] {address}: "+from+" to {request} would have more than {limit} bytes (--max-reply)", attrs...)
}

// Errno returns the code of err for a client.
func Errno(err error) pdu.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, transport.ErrLate), errors.Is(err, transport.ErrNotReady):
		return pdu.ErrnoAgain
	}
	return pdu.ErrnoOf(err)
}
