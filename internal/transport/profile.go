package transport

import (
	"bytes"
	"encoding/binary"

	"github.com/gopcp/pmcd/pdu"
)

// maxDecoded is the size, in bytes of the PDU, of the largest Profile that is kept decoded.
const maxDecoded = 1 << 10

// decodedFactor is how many times its PDU a decoded profile takes, at most.
const decodedFactor = 6

// A Profile is what a client has sent for one of its contexts. It does not change.
//
// An instance domain takes 16 bytes in a PDU and up to 100 in a pdu.Profile. A large Profile is
// therefore kept as the client has sent it. An agent on a stream gets these bytes, and for an agent in
// this process they are decoded when it is called: very many requests may wait.
type Profile struct {
	decoded *pdu.Profile // nil if it is large
	wire    []byte       // the PDU of a large one
	size    int64
}

// NewProfile returns p as a Profile, which refers to p.
func NewProfile(p *pdu.Profile) *Profile { return &Profile{decoded: p} }

// ParseProfile returns the Profile in the PDU b, and the number of its context.
func ParseProfile(b []byte) (_ *Profile, context int32, err error) {
	p := new(pdu.Profile)
	if _, err := pdu.ParseInto(b, p); err != nil {
		return nil, 0, err
	}
	switch {
	case len(p.InDoms) == 0: // the most common ones
		return &Profile{decoded: p}, p.Context, nil
	case len(b) <= maxDecoded:
		return &Profile{decoded: p, size: decodedFactor * int64(len(b))}, p.Context, nil
	}
	wire := make([]byte, len(b)) // and no more
	copy(wire, b)
	return &Profile{wire: wire, size: int64(len(wire))}, p.Context, nil
}

// Size returns how many bytes of memory p takes: 0 if it has no instance domains.
func (p *Profile) Size() int64 { return p.size }

// decode returns p decoded; nil if p is nil.
func (p *Profile) decode() *pdu.Profile {
	switch {
	case p == nil:
		return nil
	case p.decoded != nil:
		return p.decoded
	}
	decoded := new(pdu.Profile)
	if _, err := pdu.ParseInto(p.wire, decoded); err != nil {
		panic(err) // ParseProfile has parsed it
	}
	return decoded
}

// HasInDoms reports whether p selects instances of certain instance domains.
func (p *Profile) HasInDoms() bool { return p.decoded == nil || len(p.decoded.InDoms) > 0 }

// Same reports whether p and q have the same entries, in the same order.
func (p *Profile) Same(q *Profile) bool {
	if p.decoded != nil && q.decoded != nil {
		return p.decoded.SameInstances(q.decoded)
	}
	const entries = pdu.HeaderLen + 4 // behind the context
	return p.decoded == nil && q.decoded == nil && bytes.Equal(p.wire[entries:], q.wire[entries:])
}

// append appends the PDU of p for a client's context.
func (p *Profile) append(b []byte, client, context int32) (_ []byte, err error) {
	start := len(b)
	if p.decoded == nil {
		b = append(b, p.wire...)
	} else if b, err = pdu.Append(b, client, p.decoded); err != nil {
		return nil, err
	}
	// One profile, such as "all", may serve many contexts.
	binary.BigEndian.PutUint32(b[start+pdu.HeaderLen-4:], uint32(client))
	binary.BigEndian.PutUint32(b[start+pdu.HeaderLen:], uint32(context))
	return b, nil
}
