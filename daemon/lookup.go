package daemon

import (
	"slices"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/pdu"
)

// ask sends a request to the agent of a domain and leaves the answer in w.ans;
// m is what that says. unknown is the error for a domain that nobody serves.
func (s *session) ask(w *work, domain int, profile *pdu.Profile, req []byte, unknown pdu.Errno) (m pdu.Message, err error) {
	a, l, err := s.available(w, domain)
	switch {
	case a == nil:
		return nil, unknown
	case err != nil:
		return nil, err
	}
	defer l.Release()
	return s.askAgent(w, a, l, profile, req)
}

// askAgent is ask for an agent whose connection l the caller holds.
func (s *session) askAgent(w *work, a *agentset.Agent, l *agentset.Conn, profile *pdu.Profile, req []byte) (m pdu.Message, err error) {
	w.call = transport.Call{
		Origin:  agents.Origin{Client: s.num},
		Profile: profile,
		Timeout: time.Duration(s.d.timeout.Load()),
		Req:     req,
	}
	if profile != nil {
		w.call.Origin.Context = s.current
	}
	w.ans = w.ans[:0]
	if err := s.exchange(a, l, &w.call, &w.ans); err != nil {
		return nil, err
	}
	// What cannot be decoded here cannot be at the client's either.
	if _, m, err = pdu.Parse(w.ans); err != nil {
		return nil, l.ProtocolError(err)
	}
	return m, nil
}

// relay answers b, a request that is for one agent, by that agent's answer.
func (s *session) relay(w *work, domain int, b []byte, unknown pdu.Errno) error {
	if _, err := s.ask(w, domain, nil, b, unknown); err != nil {
		return s.fail(w, errnoOf(err))
	}
	pdu.SetFrom(w.ans, 0)
	return s.write(w.ans)
}

// lookup answers DESC_REQ, INSTANCE_REQ and TEXT_REQ.
func (s *session) lookup(w *work, b []byte) error {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	switch m := m.(type) {
	case *pdu.DescReq:
		return s.relay(w, m.PMID.Domain(), b, pdu.ErrnoPMID)
	case *pdu.InstanceReq:
		return s.relay(w, m.InDom.Domain(), b, pdu.ErrnoInDom)
	case *pdu.TextReq:
		if m.Kind&(pdu.TextPMID|pdu.TextInDom) == 0 {
			return s.fail(w, pdu.ErrnoPMID)
		}
		// The domain is at the same place in a PMID and in an InDom.
		return s.relay(w, pdu.PMID(m.Ident).Domain(), b, pdu.ErrnoPMID)
	}
	return s.fail(w, pdu.ErrnoIPC)
}

// askAhead is how many descriptors, or dynamic parts of the name space, are asked
// for before the first is waited for.
const askAhead = 16

// descs answers DESC_IDS. A metric without descriptor has an empty one among
// others, and is an error by itself.
func (s *session) descs(w *work, b []byte) error {
	var m pdu.DescIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	call := transport.Call{
		Origin:  agents.Origin{Client: s.num},
		Timeout: time.Duration(s.d.timeout.Load()),
	}
	reply := pdu.Descs{Descs: make([]pdu.Desc, len(m.PMIDs))}
	defer w.reset()
	w.parts = slices.Grow(w.parts[:0], askAhead) // calls on their way stay where they are
	for i := range m.PMIDs {
		if i%askAhead == 0 {
			w.parts = w.parts[:0]
			for _, id := range m.PMIDs[i:min(i+askAhead, len(m.PMIDs))] {
				p := w.nextPart()
				p.err = errnoOf(s.sendDesc(w, p, id, call))
			}
		}
		p, d := &w.parts[i%askAhead], &reply.Descs[i]
		if p.err == 0 {
			p.err = errnoOf(s.receiveMessage(p, d))
		}
		switch {
		case p.err == 0:
		case len(m.PMIDs) == 1:
			return s.fail(w, p.err)
		default:
			*d = pdu.Desc{PMID: pdu.NoPMID}
		}
	}
	return s.reply(w, &reply)
}

// sendDesc asks for a descriptor.
func (s *session) sendDesc(w *work, p *part, id pdu.PMID, call transport.Call) (err error) {
	if w.routes.Agent(id.Domain()) == nil {
		return pdu.ErrnoPMID
	}
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.DescReq{PMID: id}); err != nil {
		return err
	}
	return s.sendPart(w, p, id.Domain(), &call)
}
