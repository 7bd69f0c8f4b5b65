package session

import "github.com/gopcp/pmcd/pdu"

// descs answers DESC_IDS. Among several metrics, one without a descriptor has an empty
// descriptor. Alone, it is an error.
func (r request) descs(b []byte) error {
	var m pdu.DescIDs
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	ids, repeated := r.distinct.reduce(m.PMIDs, r.srv.hashSeed)
	s := descSeries{ids: ids, descs: make([]pdu.Desc, len(ids))}
	domains := make([]int, len(ids))
	for i, id := range ids {
		s.descs[i].PMID, domains[i] = pdu.NoPMID, id.Domain()
	}
	if r.askSeries(&s, domains, pdu.ErrnoPMID); s.last != 0 && len(m.PMIDs) == 1 {
		return r.fail(s.last)
	}
	descs := s.descs
	if repeated {
		descs = make([]pdu.Desc, len(m.PMIDs))
		for i, k := range r.distinct.order {
			descs[i] = s.descs[k]
		}
	}
	return r.reply(&pdu.Descs{Descs: descs})
}

// A descSeries is a series of descriptors.
type descSeries struct {
	ids   []pdu.PMID
	descs []pdu.Desc
	last  pdu.Errno // the last error
}

func (s *descSeries) append(b []byte, i int32) ([]byte, error) {
	return pdu.Append(b, 0, &pdu.DescReq{PMID: s.ids[i]})
}

func (s *descSeries) answered(i int32, b []byte) error {
	// If it cannot be decoded here, a client cannot decode it either.
	_, err := pdu.ParseInto(b, &s.descs[i])
	if err != nil {
		s.descs[i] = pdu.Desc{PMID: pdu.NoPMID}
	}
	return err
}

func (s *descSeries) failed(_ int32, err error, _ bool) { s.last = errnoOf(err) }
