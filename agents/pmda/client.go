package pmda

import (
	"strconv"

	"github.com/gopcp/pmcd/pdu"
)

// A Client is a client of pmcd, for as long as it is connected.
type Client struct {
	Number int32 // used again for another client when this one has gone
	Data   any   // the author's

	attrs map[pdu.AttrCode]string
}

// Attr returns what pmcd has told of the client, if the Config asks for Attrs:
// the decimal number of its user, for example.
func (c *Client) Attr(code pdu.AttrCode) (value string, ok bool) {
	value, ok = c.attrs[code]
	return value, ok
}

// UID returns the client's user, if it is known.
func (c *Client) UID() (uid int, ok bool) { return c.number(pdu.AttrUserID) }

// GID returns the client's group, if it is known.
func (c *Client) GID() (gid int, ok bool) { return c.number(pdu.AttrGroupID) }

// PID returns the client's process, if it is known.
func (c *Client) PID() (pid int, ok bool) { return c.number(pdu.AttrProcessID) }

// Container returns the name of the container whose metrics the client wants;
// "" is none.
func (c *Client) Container() string { return c.attrs[pdu.AttrContainer] }

func (c *Client) number(code pdu.AttrCode) (int, bool) {
	n, err := strconv.ParseUint(c.attrs[code], 10, 32)
	return int(n), err == nil
}

// Client returns the client that asks; nil if the Config does not ask for
// Clients.
func (r *Request) Client() *Client { return r.a.client(r.Origin.Client) }

func (a *agent) client(number int32) *Client {
	c := a.clients[number]
	if c == nil && a.clients != nil {
		c = &Client{Number: number}
		a.clients[number] = c
	}
	return c
}

// withClients is an Agent that keeps Clients.
type withClients struct{ *agent }

// EndContext implements [agents.ContextEnder].
func (a withClients) EndContext(number int32) {
	c := a.clients[number]
	if c == nil {
		return // pmcd tells of all clients
	}
	delete(a.clients, number)
	if a.conf.EndClient != nil {
		a.conf.EndClient(c)
	}
}

// withAttrs is an Agent that is told who its Clients are.
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
