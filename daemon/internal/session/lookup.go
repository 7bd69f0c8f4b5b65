package session

import (
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/pdu"
)

// relay answers b, a request for one agent, with the reply of that agent.
func (r request) relay(domain int, b []byte, unknown pdu.Errno) error {
	if _, err := r.ask(domain, nil, b, unknown); err != nil {
		return r.fail(errnoOf(err))
	}
	pdu.SetFrom(r.ans, 0)
	return r.write(r.ans)
}

// lookup answers DESC_REQ, INSTANCE_REQ and TEXT_REQ.
func (r request) lookup(b []byte) error {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	switch m := m.(type) {
	case *pdu.DescReq:
		return r.relay(m.PMID.Domain(), b, pdu.ErrnoPMID)
	case *pdu.InstanceReq:
		return r.relay(m.InDom.Domain(), b, pdu.ErrnoInDom)
	case *pdu.TextReq:
		if m.Kind&(pdu.TextPMID|pdu.TextInDom) == 0 {
			return r.fail(pdu.ErrnoPMID)
		}
		// The domain is at the same place in a PMID and in an InDom.
		return r.relay(pdu.PMID(m.Ident).Domain(), b, pdu.ErrnoPMID)
	}
	return r.fail(pdu.ErrnoIPC)
}

// askAhead is how many descriptors, or dynamic parts of the name space, are asked
// for before the first is waited for.
const askAhead = 16

// descs answers DESC_IDS. A metric without descriptor has an empty one among
// others, and is an error by itself.
func (r request) descs(b []byte) error {
	var m pdu.DescIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	call := transport.Call{
		Origin:  agents.Origin{Client: r.id.num},
		Timeout: r.srv.cfg.RequestTimeout(),
	}
	reply := pdu.Descs{Descs: make([]pdu.Desc, len(m.PMIDs))}
	defer r.reset()
	r.subs = slices.Grow(r.subs[:0], askAhead) // calls in progress must not move
	for i := range m.PMIDs {
		if i%askAhead == 0 {
			r.subs = r.subs[:0]
			for _, id := range m.PMIDs[i:min(i+askAhead, len(m.PMIDs))] {
				p := r.nextSub()
				p.err = errnoOf(r.sendDesc(p, id, call))
			}
		}
		p, d := &r.subs[i%askAhead], &reply.Descs[i]
		if p.err == 0 {
			p.err = errnoOf(r.receiveMessage(p, d))
		}
		switch {
		case p.err == 0:
		case len(m.PMIDs) == 1:
			return r.fail(p.err)
		default:
			*d = pdu.Desc{PMID: pdu.NoPMID}
		}
	}
	return r.reply(&reply)
}

// sendDesc asks for a descriptor.
func (r request) sendDesc(p *subrequest, id pdu.PMID, call transport.Call) (err error) {
	if r.routes.Agent(id.Domain()) == nil {
		return pdu.ErrnoPMID
	}
	if p.req, err = pdu.Append(p.req[:0], 0, &pdu.DescReq{PMID: id}); err != nil {
		return err
	}
	return r.sendSub(p, id.Domain(), &call)
}
