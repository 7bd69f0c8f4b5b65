package session

import (
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/pdu"
)

// lookup answers DESC_REQ, INSTANCE_REQ and TEXT_REQ with the reply of an agent.
func lookup(c *calls.Caller, b []byte) ([]byte, error) {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return nil, pdu.ErrnoIPC
	}
	var domain int
	unknown := pdu.ErrnoPMID
	switch m := m.(type) {
	case *pdu.DescReq:
		domain = m.PMID.Domain()
	case *pdu.InstanceReq:
		domain, unknown = m.InDom.Domain(), pdu.ErrnoInDom
	case *pdu.TextReq:
		if m.Kind&(pdu.TextPMID|pdu.TextInDom) == 0 {
			return nil, pdu.ErrnoPMID
		}
		domain = pdu.PMID(m.Ident).Domain() // at the same bits in a PMID and in an InDom
	}
	call := c.NewCall(0, nil, b)
	if _, err = c.Ask(domain, &call, unknown); err != nil {
		return nil, err
	}
	return c.Answer(), nil
}

// descs answers DESC_IDS. Among several metrics, one without a descriptor has an empty
// descriptor. Alone, it is an error.
func descs(c *calls.Caller, b []byte, d *distinct, hashSeed uint32) ([]byte, error) {
	var m pdu.DescIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return nil, pdu.ErrnoIPC
	}
	ids, repeated := d.reduce(m.PMIDs, hashSeed)
	s := descSeries{ids: ids, descs: make([]pdu.Desc, len(ids))}
	domains := make([]int, len(ids))
	for i, id := range ids {
		s.descs[i].PMID, domains[i] = pdu.NoPMID, id.Domain()
	}
	if c.AskSeries(&s, domains, pdu.ErrnoPMID); s.last != 0 && len(m.PMIDs) == 1 {
		return nil, s.last
	}
	descs := s.descs
	if repeated {
		descs = make([]pdu.Desc, len(m.PMIDs))
		for i, k := range d.order {
			descs[i] = s.descs[k]
		}
	}
	return c.Reply(&pdu.Descs{Descs: descs})
}

// A descSeries is a calls.Series of descriptors.
type descSeries struct {
	ids   []pdu.PMID
	descs []pdu.Desc
	last  pdu.Errno // the last error
}

func (s *descSeries) Append(b []byte, i int32) ([]byte, error) {
	return pdu.Append(b, 0, &pdu.DescReq{PMID: s.ids[i]})
}

func (s *descSeries) Answered(i int32, b []byte) error {
	// If it cannot be decoded here, a client cannot decode it either.
	_, err := pdu.ParseInto(b, &s.descs[i])
	if err != nil {
		s.descs[i] = pdu.Desc{PMID: pdu.NoPMID}
	}
	return err
}

func (s *descSeries) Failed(_ int32, err error, _ bool) { s.last = calls.Errno(err) }
