package pmnsload

import (
	"errors"
	"math"

	"github.com/gopcp/pmcd/pdu"
)

var errNotPMID = errors.New("not a PMID")

// parsePMID parses D:C:I or D:*:*. C pmcd differs: it also accepts D alone as a
// dynamic root, takes numbers modulo 2^32, and ignores text after the PMID.
func parsePMID(w []byte) (pdu.PMID, error) {
	type part struct{ number, digits, stars int }
	var parts [3]part
	colons := 0
	p := &parts[0]
	for _, b := range w {
		switch {
		case isDigit(b):
			p.number = min(p.number*10+int(b-'0'), math.MaxUint16) // without overflow
			p.digits++
		case b == ':':
			colons++
			p = &parts[min(colons, 2)]
		case b == '*':
			p.stars++
		default:
			return pdu.NoPMID, errNotPMID
		}
	}
	isNumber := func(p part) bool { return p.digits > 0 && p.stars == 0 }
	isStar := func(p part) bool { return p.digits == 0 && p.stars == 1 }
	d, c, i := parts[0], parts[1], parts[2]
	if colons != 2 || !isNumber(d) {
		return pdu.NoPMID, ErrPMID
	}
	if isStar(c) && isStar(i) {
		if d.number > maxDomain {
			return pdu.NoPMID, causef(ErrDomain, "Illegal domain field in dynamic PMID")
		}
		return pdu.DynamicRoot(d.number), nil
	}
	switch {
	case !isNumber(c) || !isNumber(i):
		return pdu.NoPMID, ErrPMID
	case d.number > maxDomain:
		return pdu.NoPMID, ErrDomain
	case c.number > maxCluster:
		return pdu.NoPMID, ErrCluster
	case i.number > maxItem:
		return pdu.NoPMID, ErrItem
	}
	return pdu.NewPMID(d.number, c.number, i.number), nil
}

// Largest values in a PMID. Domain 511 is for dynamic roots and derived metrics of
// clients.
const (
	maxDomain  = 510
	maxCluster = 1<<12 - 1
	maxItem    = 1<<10 - 1
)
