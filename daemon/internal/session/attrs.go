package session

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
)

// toldAttrs is what agents were told of a client.
type toldAttrs struct {
	// mu guards the following, which the goroutine of the session changes and an
	// agent that connects is sent. A notice is sent with mu held: an agent must not
	// be told of a client after it was told of the client's end.
	mu     sync.Mutex
	attrs  []pdu.Attr // the last ones
	closed bool       // the client has disconnected
}

// replace replaces the attributes and reports whether they differ, and whether there are
// some that the client has no more.
func (a *toldAttrs) replace(attrs []pdu.Attr) (changed, lost bool) {
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

// sendTo tells one agent about the client with a number, if there is something to
// tell and the agent wants to know. If anew is set the agent forgets what it was told before.
func (a *toldAttrs) sendTo(c *agentset.Conn, client int32, anew bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if (len(a.attrs) > 0 || anew) && !a.closed && c.WantsAttrs() {
		c.Notify(transport.Notice{Client: client, End: anew, Attrs: a.attrs})
	}
}

// close prevents agents that are being started from being told, and reports whether
// others were told something.
func (a *toldAttrs) close() (told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return len(a.attrs) > 0
}

// attrs returns all that agents may know of the client.
func (s *session) attrs() []pdu.Attr {
	var attrs []pdu.Attr
	add := func(code pdu.AttrCode, value string) {
		attrs = append(attrs, pdu.Attr{Code: code, Value: []byte(value)})
	}
	if p := s.conn.Peer(); p.Unix {
		add(pdu.AttrProcessID, fmt.Sprint(p.PID))
	}
	switch u, p := s.id.user.Load(), s.id.peer; {
	case u != nil: // in the order of C pmcd
		if u.known {
			add(pdu.AttrGroupID, fmt.Sprint(u.gid))
			add(pdu.AttrUserID, fmt.Sprint(u.uid))
		}
		add(pdu.AttrUserName, u.name)
	case p.HasUser:
		add(pdu.AttrGroupID, fmt.Sprint(p.GID))
		add(pdu.AttrUserID, fmt.Sprint(p.UID))
	}
	if s.container.chosen {
		add(pdu.AttrContainer, s.container.current())
	}
	return attrs
}

// broadcastAttrs sends the attributes of the client to the agents that want them,
// unless they have been sent the same ones. A login can take attributes away: the user ID,
// if the system does not know the new user. There is no PDU for that, so agents are told
// that the client has gone, and then what it is now.
func (s *session) broadcastAttrs() {
	attrs := s.attrs()
	changed, lost := s.told.replace(attrs)
	if !changed {
		return
	}
	for _, a := range attrs {
		s.srv.cfg.Debug.Log(diag.DebugAttr, "client[{client}] attribute {attribute}={value:q} for agents", "client", s.id.num, "attribute", a.Code, "value", a.Value)
	}
	for _, a := range s.srv.cfg.Routes().Agents() {
		if c := a.Conn(); c != nil {
			s.told.sendTo(c, s.id.num, lost)
		}
	}
}

// notifyGone tells the agents that may know of the client that it has disconnected.
// From then on its number may be another client's: the notice goes before any
// request of that one.
//
// C pmcd tells all agents, each time.
func (s *session) notifyGone() {
	s.srv.subtrees.forget(s)
	told := s.told.close()
	for _, a := range s.srv.cfg.Routes().Agents() {
		c := a.Conn()
		if c != nil && (s.asked.has(a.Domain) || told && c.WantsAttrs()) {
			c.Notify(transport.Notice{Client: s.id.num, End: true})
		}
	}
}

// A domainSet is a set of domains.
type domainSet [routes.Domains / 64]uint64

func (d *domainSet) add(domain int)      { d[domain/64] |= 1 << (domain % 64) }
func (d *domainSet) has(domain int) bool { return d[domain/64]>>(domain%64)&1 != 0 }
