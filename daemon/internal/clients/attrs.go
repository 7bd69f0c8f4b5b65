package clients

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// knownAttrs are the attributes of a client that agents know.
type knownAttrs struct {
	// mu guards the following, which the goroutine of the session changes and an
	// agent that connects is sent. A notice is sent with mu held: an agent must get
	// none of a client after that of the client's end. So it is locked before the mutexes
	// of transports.
	mu     sync.Mutex
	attrs  []pdu.Attr // the last ones
	closed bool       // the client has disconnected
}

// replace replaces the attributes and reports whether they differ, and whether there are
// some that the client has no more.
func (a *knownAttrs) replace(attrs []pdu.Attr) (changed, lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, old := range a.attrs {
		lost = lost || !slices.ContainsFunc(attrs, func(b pdu.Attr) bool { return b.Code == old.Code })
	}
	same := slices.EqualFunc(attrs, a.attrs, func(a, b pdu.Attr) bool {
		return a.Code == b.Code && bytes.Equal(a.Value, b.Value)
	})
	a.attrs = attrs
	return !same, lost
}

// sendTo sends the attributes of the client with a number to one agent, if there are some
// and the agent wants them. If anew is set the agent forgets the earlier ones.
func (a *knownAttrs) sendTo(c *agentset.Conn, client int32, anew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if (len(a.attrs) > 0 || anew) && !a.closed && c.WantsAttrs() {
		c.Notify(transport.Notice{Client: client, End: anew, Attrs: a.attrs})
	}
}

// close prevents agents that are being started from getting the attributes, and reports
// whether others have got some.
func (a *knownAttrs) close() (sent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return len(a.attrs) > 0
}

// attrs returns all that agents may know of the client.
func (c *Client) attrs() []pdu.Attr {
	var attrs []pdu.Attr
	add := func(code pdu.AttrCode, value string) {
		attrs = append(attrs, pdu.Attr{Code: code, Value: []byte(value)})
	}
	if p := c.Conn.Peer(); p.Unix {
		add(pdu.AttrProcessID, fmt.Sprint(p.PID))
	}
	switch u, p := c.User.Load(), c.Peer; {
	case u != nil: // in the order of C pmcd
		if u.Known {
			add(pdu.AttrGroupID, fmt.Sprint(u.GID))
			add(pdu.AttrUserID, fmt.Sprint(u.UID))
		}
		add(pdu.AttrUserName, u.Name)
	case p.HasUser:
		add(pdu.AttrGroupID, fmt.Sprint(p.GID))
		add(pdu.AttrUserID, fmt.Sprint(p.UID))
	}
	if c.Container.Chosen {
		add(pdu.AttrContainer, c.Container.Name())
	}
	return attrs
}

// SendAttrs sends the attributes of the client to the agents that want them,
// unless they have been sent the same ones. A login can take attributes away: the user ID,
// if the system does not know the new user. There is no PDU for that, so agents get
// the end of the client, and then what it is now.
//
// The current routes are loaded after the change, here and in SendEnd: an agent that a reload
// adds meanwhile is in them, or AgentConnected sends it the new attributes only.
func (c *Client) SendAttrs(current func() *routes.Table, debug *diag.Debug) {
	attrs := c.attrs()
	changed, lost := c.known.replace(attrs)
	if !changed {
		return
	}
	for _, a := range attrs {
		debug.Log(diag.DebugAttr, "client[{client}] attribute {attribute}={value:q} for agents", "client", c.Num, "attribute", a.Code, "value", a.Value)
	}
	for _, a := range current().Agents() {
		if to := a.Conn(); to != nil {
			c.known.sendTo(to, c.Num, lost)
		}
	}
}

// SendEnd notifies the agents that may know of the client that it has disconnected.
// From then on its number may be another client's: the notice goes before any
// request of that one.
//
// C pmcd differs: it notifies all agents, each time.
func (c *Client) SendEnd(current func() *routes.Table) {
	known := c.known.close()
	for _, a := range current().Agents() {
		to := a.Conn()
		if to != nil && (c.Asked.has(a.Domain) || known && to.WantsAttrs()) {
			to.Notify(transport.Notice{Client: c.Num, End: true})
		}
	}
}

// A domainSet is a set of domains. The goroutine of the session uses it.
type domainSet [routes.Domains / 64]uint64

func (d *domainSet) Add(domain int)      { d[domain/64] |= 1 << (domain % 64) }
func (d *domainSet) has(domain int) bool { return d[domain/64]>>(domain%64)&1 != 0 }
