package main

import (
	"fmt"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// requests returns the PDUs of a fetch. Those of PCP 6.0.3's pmlogger are a profile, even if it has
// not changed, and a fetch with a time to the nanosecond.
func (p *pacedParams) requests() [][]byte {
	fetch := encode(&pdu.Fetch{PMIDs: p.IDs})
	switch {
	case p.Logger:
		return [][]byte{profile, encode(&pdu.HighResFetch{PMIDs: p.IDs})}
	case p.Newcomers:
		return [][]byte{slices.Concat(profile, fetch)}
	}
	return [][]byte{fetch}
}

// loggerStarts is how many loggers make all requests with which pmlogger begins. The memory that
// pmcd needs for these stays in use. More of them make no difference: with 1, 5, 10 and 20 of
// 20 loggers Pss_Anon was 5.4, 7.3, 7.7 and 7.7 MB.
const loggerStarts = 10

// loggerStart sends the requests of PCP 6.0.3's pmlogger for the metrics that it is to record: names,
// descriptors, labels and help texts of all, and of their instance domains.
func loggerStart(c *client, ids []pdu.PMID) error {
	both := func(ident uint32, of pdu.TextKind) []pdu.Message {
		return []pdu.Message{&pdu.TextReq{Ident: ident, Kind: of | pdu.TextOneLine}, &pdu.TextReq{Ident: ident, Kind: of | pdu.TextHelp}}
	}
	all := []pdu.Message{&pdu.LabelReq{Kind: pdu.LabelContext}}
	domains, indoms := map[int]bool{}, map[pdu.InDom]bool{pdu.NoInDom: true}
	for _, id := range ids {
		d, err := ask[*pdu.Desc](c, &pdu.DescReq{PMID: id})
		if err != nil {
			return fmt.Errorf("descriptor of %v: %w", id, err)
		}
		if !domains[id.Domain()] {
			domains[id.Domain()] = true
			all = append(all, &pdu.LabelReq{Ident: uint32(id.Domain()), Kind: pdu.LabelDomain})
		}
		if !indoms[d.InDom] {
			indoms[d.InDom] = true
			ident := uint32(d.InDom)
			all = append(all, &pdu.InstanceReq{InDom: d.InDom, Inst: pdu.NoInst},
				&pdu.LabelReq{Ident: ident, Kind: pdu.LabelInDom}, &pdu.LabelReq{Ident: ident, Kind: pdu.LabelInstances})
			all = append(all, both(ident, pdu.TextInDom)...)
		}
		ident := uint32(id)
		all = append(all, &pdu.PMNSIDs{PMIDs: []pdu.PMID{id}},
			&pdu.LabelReq{Ident: ident, Kind: pdu.LabelCluster}, &pdu.LabelReq{Ident: ident, Kind: pdu.LabelItem})
		all = append(all, both(ident, pdu.TextPMID)...)
	}
	for _, m := range all {
		if _, err := c.call(encode(m)); isBroken(err) { // not every metric has each
			return fmt.Errorf("%v: %w", m.Type(), err)
		}
	}
	return nil
}
