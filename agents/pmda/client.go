package pmda

import (
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// A Client is a client that is connected to pmcd.
type Client struct {
	Number int32 // pmcd's number for it; reused after the client has disconnected
	Data   any   // for the author's use

	attrs map[pdu.AttrCode]string
}

// Attr returns an attribute of the client, such as its user id in decimal. Clients
// have attributes only with Config.WantAttrs.
func (c *Client) Attr(code pdu.AttrCode) (value string, ok bool) {
	value, ok = c.attrs[code]
	return value, ok
}

// UID returns the client's user id. ok is false if pmcd does not know it.
func (c *Client) UID() (uid int, ok bool) { return c.number(pdu.AttrUserID) }

// GID returns the client's group id. ok is false if pmcd does not know it.
func (c *Client) GID() (gid int, ok bool) { return c.number(pdu.AttrGroupID) }

// PID returns the client's process id. ok is false if pmcd does not know it.
func (c *Client) PID() (pid int, ok bool) { return c.number(pdu.AttrProcessID) }

// Container returns the name of the container whose metrics the client has
// requested, or "".
func (c *Client) Container() string { return c.attrs[pdu.AttrContainer] }

// number returns an attribute that is a decimal number.
func (c *Client) number(code pdu.AttrCode) (int, bool) {
	n, err := strconv.ParseUint(c.attrs[code], 10, 32)
	return int(n), err == nil
}

// Client returns the client that has sent the request. It returns nil if the
// Config has neither WantAttrs nor EndClient.
func (r *Request) Client() *Client { return r.a.client(r.Origin.Client) }

// client returns the Client for number. It makes one if there is none.
func (a *agent) client(number int32) *Client {
	c := a.clients[number]
	if c == nil && a.clients != nil {
		c = &Client{Number: number}
		a.clients[number] = c
	}
	return c
}

// withClients is an agent with Config.EndClient or WantAttrs. pmcd reports the end of each
// client to it.
type withClients struct{ *agent }

// EndContext implements [agents.ContextEnder].
func (a withClients) EndContext(number int32) {
	c := a.clients[number]
	if c == nil {
		return // pmcd reports all clients, also those that sent no request
	}
	delete(a.clients, number)
	if a.conf.EndClient != nil {
		a.conf.EndClient(c)
	}
}

// withAttrs is an agent with Config.WantAttrs. pmcd sends it the attributes of
// clients.
type withAttrs struct{ withClients }

// SetAttr implements [agents.AttrSetter].
func (a withAttrs) SetAttr(number int32, attr pdu.Attr) {
	c := a.client(number)
	if attr.Code == pdu.AttrContainer && len(attr.Value) == 0 {
		delete(c.attrs, attr.Code)
		return
	}
	if c.attrs == nil {
		c.attrs = make(map[pdu.AttrCode]string)
	}
	c.attrs[attr.Code] = string(attr.Value)
}
