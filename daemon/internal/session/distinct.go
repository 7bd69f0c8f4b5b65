package session

import (
	"math/bits"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// A distinct finds the PMIDs that are several times in a request: an agent gets each
// of them once. Its memory is used again.
type distinct struct {
	order []int32 // of the PMIDs of the request, in turn: the index among the different ones
	table []int32 // hash table of indexes plus 1; 0 is free
}

// fewIDs is the number of PMIDs up to which comparing all of them is faster than a
// hash table.
const fewIDs = 8

// reduce moves the different ones of ids to its beginning and returns them, in the
// order in which they are first in ids. It reports false if all are different; then
// d.order has no meaning. seed is a random number, so that a client cannot choose
// PMIDs with the same hash.
func (d *distinct) reduce(ids []pdu.PMID, seed uint32) (different []pdu.PMID, repeated bool) {
	shift := 0
	if len(ids) > fewIDs {
		n := bits.Len(uint(2*len(ids) - 1)) // the table is at most half full
		shift = 32 - n
		if cap(d.table) < 1<<n {
			d.table = make([]int32, 1<<n)
		} else {
			d.table = d.table[:1<<n]
			clear(d.table)
		}
	}
	n := 0
	for i, id := range ids {
		at := n
		if shift == 0 {
			for k, other := range ids[:n] {
				if id == other {
					at = k
					break
				}
			}
		} else {
			at = d.find(ids[:n], id, uint32(id)*(seed|1)>>shift)
		}
		if at < n && !repeated {
			repeated = true
			d.order = slices.Grow(d.order[:0], len(ids)) // and no more
			for k := range int32(i) {
				d.order = append(d.order, k)
			}
		}
		if repeated {
			d.order = append(d.order, int32(at))
		}
		if at == n {
			ids[n] = id
			n++
		}
	}
	return ids[:n], repeated
}

// find returns the index of id in ids; len(ids) if it is not there, and from then on
// it has that index. at is the index of id in the table.
func (d *distinct) find(ids []pdu.PMID, id pdu.PMID, at uint32) int {
	mask := uint32(len(d.table) - 1)
	for ; ; at = (at + 1) & mask {
		switch k := int(d.table[at]) - 1; {
		case k < 0:
			d.table[at] = int32(len(ids) + 1)
			return len(ids)
		case ids[k] == id:
			return k
		}
	}
}

// bytes reports how much memory d has.
func (d *distinct) bytes() int { return 4 * (cap(d.order) + cap(d.table)) }
