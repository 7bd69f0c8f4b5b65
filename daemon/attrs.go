package daemon

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/pdu"
)

// attrs is all that agents may know of the client. The caller holds mu.
func (s *session) attrs() []pdu.Attr {
	var attrs []pdu.Attr
	add := func(code pdu.AttrCode, value string) {
		attrs = append(attrs, pdu.Attr{Code: code, Value: []byte(value)})
	}
	if p := s.conn.Peer(); p.Unix {
		add(pdu.AttrProcessID, fmt.Sprint(p.PID))
		add(pdu.AttrGroupID, fmt.Sprint(p.GID))
		add(pdu.AttrUserID, fmt.Sprint(p.UID))
	}
	if s.container != "" || s.contained {
		add(pdu.AttrContainer, s.container)
	}
	return attrs
}

// announce tells the agents that want to know who the client is, unless they
// have been told the same.
func (s *session) announce() {
	s.mu.Lock()
	attrs := s.attrs()
	same := slices.EqualFunc(attrs, s.announced, func(a, b pdu.Attr) bool {
		return a.Code == b.Code && bytes.Equal(a.Value, b.Value)
	})
	s.announced = attrs
	s.mu.Unlock()
	if same {
		return
	}
	for _, a := range attrs {
		s.d.debug.Printf(diag.DebugAttr, "client[%d] attribute %v=%q for agents", s.num, a.Code, a.Value)
	}
	for _, a := range s.d.routes.Load().Agents() {
		if l := a.Conn(); l != nil {
			s.introduce(l)
		}
	}
}

// introduce tells one agent who the client is, if there is something to say.
func (s *session) introduce(l *agentset.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.announced) > 0 && !s.left && l.WantsAttrs() {
		l.Notify(transport.Notice{Client: s.num, Attrs: s.announced})
	}
}

// leave tells the agents that may know of the client that it has gone. From
// then on its number may be another's: the notice goes before any request of
// that one.
//
// C pmcd tells all agents, each time.
func (s *session) leave() {
	s.d.subtrees.forget(s)
	s.mu.Lock()
	s.left = true // an agent that is being started must not hear of it any more
	introduced := len(s.announced) > 0
	s.mu.Unlock()
	for _, a := range s.d.routes.Load().Agents() {
		l := a.Conn()
		if l != nil && (s.asked.has(a.Domain) || introduced && l.WantsAttrs()) {
			l.Notify(transport.Notice{Client: s.num, End: true})
		}
	}
}

// A domainSet is a set of domains.
type domainSet [routes.Domains / 64]uint64

func (d *domainSet) add(domain int)      { d[domain/64] |= 1 << (domain % 64) }
func (d *domainSet) has(domain int) bool { return d[domain/64]>>(domain%64)&1 != 0 }
