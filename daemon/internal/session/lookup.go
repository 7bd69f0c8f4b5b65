package session

import "github.com/gopcp/pmcd/pdu"

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
