// Package repeated makes replies to fetches that name metrics several times.
//
// An agent is asked for each metric once. A [Reply] has these value sets once, and the order in
// which the client wants them, and makes the bytes of its PDU when they can be written. So 46 KB of
// a request that names a metric again and again never become 16 MB of memory.
package repeated

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/gopcp/pmcd/internal/pduformat"
	"github.com/gopcp/pmcd/pdu"
)

// A Reply is a RESULT or HIGHRES_RESULT PDU that is made in pieces. The zero value has none; its
// memory is used again by Reset.
type Reply struct {
	head  []byte
	mem   []byte
	sets  []set
	order []int32
	total int

	at     position
	next   position // after what Peek has returned, which has peeked bytes
	peeked int
}

// A set is where in mem a value set and, behind it, its blocks are. Offsets of blocks count from
// the first one, in words.
type set struct{ start, blocks, end int }

// A position is where in the PDU the next byte is: in the head, in the value sets, or in the blocks
// of the value sets.
type position struct {
	part   int // 0 is the head; then 1 for each element of order, and again for the blocks of each
	off    int // in the part
	blocks int // where in the PDU the blocks of the set of the part are
}

// Reset makes r the PDU with value sets of b: one for each element of order, which is the index of
// the set in b. Each has value blocks of its own, as libpcp requires. If the PDU would have more than
// max bytes, Reset fails with pdu.ErrTooLong; 0 is the limit of the protocol. The order must not
// change while r is used; b may.
//
// Call Reset only with a PDU that relay.CheckResult accepts, or that was made of such PDUs or by a
// pdu.ResultWriter, and with indexes of sets that b has. Otherwise it may panic.
func (r *Reply) Reset(b []byte, order []int32, max int) error {
	n, count := pduformat.ResultHeaderLen, pduformat.ResultHeaderLen-4
	_, typ, _ := pdu.Header(b)
	if typ == pdu.TypeHighResResult {
		n, count = pduformat.HighResHeaderLen, pdu.HeaderLen
	}
	*r = Reply{head: append(r.head[:0], b[:n]...), mem: r.mem[:0], sets: r.sets[:0], order: order}
	r.copySets(b, n, int(binary.BigEndian.Uint32(b[count:])))
	limit := math.MaxInt32
	if max > 0 {
		limit = min(limit, max)
	}
	total, blocks := n, n
	for _, i := range order {
		s := r.sets[i]
		// A sum could overflow an int of 32 bits.
		if s.end-s.start > limit-total {
			return &pdu.ParseError{Type: typ, Off: total, Err: pdu.ErrTooLong}
		}
		total += s.end - s.start
		blocks += s.blocks - s.start
	}
	binary.BigEndian.PutUint32(r.head, uint32(total))
	binary.BigEndian.PutUint32(r.head[count:], uint32(len(order)))
	r.at.blocks, r.total = blocks, total
	return nil
}

// Prepend has b, another PDU, written first. It is called before Peek.
func (r *Reply) Prepend(b []byte) {
	r.head = slices.Concat(b, r.head)
	r.total += len(b)
}

// Free forgets the order, and the memory of r if that is more than most bytes.
func (r *Reply) Free(most int) {
	if r.order = nil; r.Held() > most {
		*r = Reply{}
	}
}

// copySets copies n value sets, from off in b, each with its blocks behind it.
func (r *Reply) copySets(b []byte, off, n int) {
	if cap(r.mem) < len(b)-off {
		r.mem = make([]byte, 0, len(b)-off)
	}
	if cap(r.sets) < n {
		r.sets = make([]set, 0, n)
	}
	for range n {
		s := set{start: len(r.mem)}
		values := int(int32(binary.BigEndian.Uint32(b[off+4:])))
		length := pduformat.EmptySetLen
		if values > 0 {
			length = pduformat.SetLen + values*pduformat.ValueLen
		}
		r.mem = append(r.mem, b[off:off+length]...)
		s.blocks = len(r.mem)
		if values > 0 && binary.BigEndian.Uint32(b[off+pduformat.EmptySetLen:]) != pdu.FormatInsitu {
			for at := s.start + pduformat.SetLen; at < s.blocks; at += pduformat.ValueLen {
				block := b[4*binary.BigEndian.Uint32(r.mem[at+4:]):]
				binary.BigEndian.PutUint32(r.mem[at+4:], uint32(len(r.mem)-s.blocks)/4)
				r.mem = append(r.mem, block[:(binary.BigEndian.Uint32(block)&pduformat.MaxBlock+3)&^3]...)
			}
		}
		s.end = len(r.mem)
		r.sets = append(r.sets, s)
		off += length
	}
}

// Len returns how many bytes are to be written.
func (r *Reply) Len() int { return r.total }

// Held returns how many bytes of memory r has.
func (r *Reply) Held() int {
	return cap(r.head) + cap(r.mem) + 24*cap(r.sets) + 4*cap(r.order)
}

// Peek makes the next bytes in buf, of which it returns a part; that is empty at the end. buf has
// room for some 64 bytes at least.
func (r *Reply) Peek(buf []byte) []byte {
	p := r.at
	drop := p.off & 3 // words are made whole
	p.off -= drop
	buf = buf[:len(buf)&^3]
	n := 0
	for n < len(buf) && p.part <= 2*len(r.order) {
		if p.off == 0 {
			k := r.fillSets(buf[n:], &p)
			n += k + r.fillBlocks(buf[n+k:], &p)
		}
		if n < len(buf) && p.part <= 2*len(r.order) {
			n += r.fill(buf[n:], &p)
		}
	}
	r.next, r.peeked = p, n-drop
	return buf[drop:n]
}

// fillSets makes value sets as long as buf has room for whole ones.
func (r *Reply) fillSets(buf []byte, p *position) (n int) {
	i := p.part - 1
	if i < 0 {
		return 0
	}
	for ; i < len(r.order); i++ {
		s := &r.sets[r.order[i]]
		values := r.mem[s.start:s.blocks]
		if len(values) > len(buf)-n {
			break
		}
		set := buf[n : n+len(values)]
		copy(set, values)
		n += len(values)
		if s.blocks < s.end {
			setOffsets(set, pduformat.SetLen+4, p.blocks)
			p.blocks += s.end - s.blocks
		}
		p.part++
	}
	return n
}

// fillBlocks makes the blocks of value sets as long as buf has room for all of a set.
func (r *Reply) fillBlocks(buf []byte, p *position) (n int) {
	i := p.part - 1 - len(r.order)
	if i < 0 {
		return 0
	}
	for ; i < len(r.order); i++ {
		s := &r.sets[r.order[i]]
		blocks := r.mem[s.blocks:s.end]
		if len(blocks) > len(buf)-n {
			break
		}
		n += copy(buf[n:], blocks)
		p.part++
	}
	return n
}

// setOffsets adds where the blocks of a value set begin to their offsets, which are every second
// word of b from at on.
func setOffsets(b []byte, at, blocks int) {
	for ; at < len(b); at += pduformat.ValueLen {
		word := binary.BigEndian.Uint32(b[at:])
		binary.BigEndian.PutUint32(b[at:], word+uint32(blocks/4))
	}
}

// fill makes the rest of the part of p, or as much of it as buf has room for.
func (r *Reply) fill(buf []byte, p *position) (n int) {
	n = copy(buf, r.part(p.part)[p.off:])
	if i := p.part - 1; i >= 0 && i < len(r.order) {
		if s := r.sets[r.order[i]]; s.blocks < s.end {
			setOffsets(buf[:n], max(pduformat.SetLen+4, (p.off+7)&^7)-p.off, p.blocks)
		}
	}
	p.move(r, n)
	return n
}

// part returns the bytes of a part.
func (r *Reply) part(i int) []byte {
	if i == 0 {
		return r.head
	}
	if i--; i < len(r.order) {
		s := r.sets[r.order[i]]
		return r.mem[s.start:s.blocks]
	}
	s := r.sets[r.order[i-len(r.order)]]
	return r.mem[s.blocks:s.end]
}

// move moves p by n bytes, at most to the end of its part.
func (p *position) move(r *Reply, n int) {
	p.off += n
	if p.off < len(r.part(p.part)) {
		return
	}
	if i := p.part - 1; i >= 0 && i < len(r.order) {
		s := r.sets[r.order[i]]
		p.blocks += s.end - s.blocks
	}
	p.part, p.off = p.part+1, 0
}

// Advance moves r by n bytes, of those that Peek has returned.
func (r *Reply) Advance(n int) {
	if n == r.peeked {
		r.at, r.peeked = r.next, 0
		return
	}
	r.peeked -= n
	for n > 0 {
		k := min(n, len(r.part(r.at.part))-r.at.off)
		r.at.move(r, k)
		n -= k
	}
}
