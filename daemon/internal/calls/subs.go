package calls

import (
	"cmp"
	"slices"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// A Sub is the part of a request that is for one agent.
type Sub struct {
	Agent  *agentset.Agent
	Conn   *agentset.Conn
	Absent bool // the domains have no agent
	Fetch  pdu.Fetch
	Call   transport.Call
	Req    []byte
	Reply  []byte
	Sets   relay.Sets
	Store  []pdu.ValueSet // of a store
	Err    pdu.Errno      // in place of values

	sent  transport.Reply // to Call
	usual time.Duration   // how long the agent usually takes
}

// Sub returns the Sub for a domain, which is new if there is none yet. All domains
// without an agent, of which a request can name hundreds, have one.
func (c *Caller) Sub(domain int) *Sub {
	if i := c.subOf[domain]; i != 0 {
		return &c.Subs[i-1]
	}
	absent := c.Routes.Agent(domain) == nil
	if absent && c.absent != 0 {
		c.subOf[domain] = c.absent
		return &c.Subs[c.absent-1]
	}
	p := c.NextSub()
	p.Absent = absent
	c.subOf[domain] = int16(len(c.Subs))
	if absent {
		c.absent = c.subOf[domain]
	}
	return p
}

// NextSub returns one more Sub.
func (c *Caller) NextSub() *Sub {
	if len(c.Subs) < cap(c.Subs) {
		c.Subs = c.Subs[:len(c.Subs)+1]
	} else {
		c.Subs = append(c.Subs, Sub{})
	}
	p := &c.Subs[len(c.Subs)-1]
	p.Agent, p.Conn, p.sent, p.Fetch.PMIDs, p.Err = nil, nil, nil, p.Fetch.PMIDs[:0], 0
	p.Absent = false
	p.Req, p.Reply = p.Req[:0], p.Reply[:0]
	p.Store = p.Store[:0]
	return p
}

// SlowestFirst returns the Subs of a fetch in the order in which their agents are asked.
func (c *Caller) SlowestFirst() []*Sub {
	c.order = c.order[:0]
	for i := range c.Subs {
		p := &c.Subs[i]
		p.usual = 0
		if a := c.Routes.Agent(p.Fetch.PMIDs[0].Domain()); a != nil {
			p.usual = a.TypicalLatency()
		}
		c.order = append(c.order, p)
	}
	slices.SortStableFunc(c.order, func(p, q *Sub) int { return cmp.Compare(q.usual, p.usual) })
	return c.order
}

// Reset forgets the Subs of the last request.
func (c *Caller) Reset() {
	clear(c.subOf[:])
	c.absent = 0
	c.Subs = c.Subs[:0]
}

// SendSub sends p.Req to the agent of a domain, with what else call says. A fenced agent gets
// it only if fencedToo is set. If there is no error, ReceiveSub must be called.
func (c *Caller) SendSub(p *Sub, domain int, call *transport.Call, fencedToo bool) (err error) {
	if p.Agent, p.Conn, err = c.Available(domain, fencedToo); err != nil {
		return err
	}
	p.Call = *call
	p.Call.Req = p.Req
	if p.sent, err = c.send(p.Conn, &p.Call); err != nil {
		p.Conn.Release()
	}
	return err
}

// ReceiveSub waits for the answer to what SendSub has sent, and puts it into p.Reply. Check,
// unless nil, looks at it while the connection is in use.
func (c *Caller) ReceiveSub(p *Sub, check func() error) error {
	defer p.Conn.Release()
	p.Reply = p.Reply[:0]
	err := c.receive(p.Agent, p.Conn, &p.Call, p.sent, &p.Reply)
	if err == nil && check != nil {
		err = check()
	}
	return err
}
