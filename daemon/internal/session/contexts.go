package session

import "github.com/gopcp/pmcd/pdu"

// setProfile replaces the profile of one of the client's contexts.
func (s *session) setProfile(b []byte) error {
	p := new(pdu.Profile)
	if _, err := pdu.ParseInto(b, p); err != nil {
		return pdu.ErrnoIPC
	}
	old, ok := s.contexts.room(p.Context, s.srv.cfg.MaxContexts)
	if !ok {
		return pdu.ErrnoEAGAIN
	}
	profile := newProfile(b, p)
	if err := s.holdProfile(old, profile); err != nil {
		s.contexts.set(p.Context, nil) // the old one would give other values than the client expects
		s.srv.cfg.Limiter.Warn("profiles", "client[{client}] {address}: a profile is refused (EAGAIN): {error}",
			"client", s.client.Num, "address", s.client.Addr, "error", err)
		return pdu.ErrnoEAGAIN
	}
	s.contexts.set(p.Context, profile)
	s.contexts.current = p.Context
	return nil
}

// profile returns the profile of a context, or nil.
func (s *session) profile(context int32) *pdu.Profile {
	p := s.contexts.get(context)
	switch {
	case p == nil:
		return nil
	case p.decoded != nil:
		return p.decoded
	}
	decoded := new(pdu.Profile)
	if _, err := pdu.ParseInto(p.wire, decoded); err != nil {
		panic(err) // it was parsed when it came
	}
	return decoded
}

// A profile is what a client has sent for one of its contexts. It does not change.
//
// An instance domain takes 16 bytes in a PDU and up to 100 in a pdu.Profile. A large
// profile is therefore kept as the client has sent it, and decoded when it is used.
type profile struct {
	decoded *pdu.Profile // nil if it is large
	wire    []byte       // the PDU of a large one
	bytes   int64        // that it takes
}

const (
	// maxDecoded is the size, in bytes of the PDU, of the largest profile that is kept
	// decoded.
	maxDecoded = 1 << 10

	// decodedFactor is how many times its PDU a decoded profile takes, at most.
	decodedFactor = 6
)

// newProfile returns the profile in the PDU b, which p is decoded from.
func newProfile(b []byte, p *pdu.Profile) *profile {
	switch {
	case len(p.InDoms) == 0: // the most common ones
		return &profile{decoded: p}
	case len(b) <= maxDecoded:
		return &profile{decoded: p, bytes: decodedFactor * int64(len(b))}
	}
	wire := make([]byte, len(b)) // and no more
	copy(wire, b)
	return &profile{wire: wire, bytes: int64(len(wire))}
}

// size returns how many bytes p takes; 0 if it is nil.
func (p *profile) size() int64 {
	if p == nil {
		return 0
	}
	return p.bytes
}

// contexts are the profiles that a client has sent, by the numbers that it has
// given its contexts. The numbers can be any: PCP's library counts the contexts of
// a process over all hosts. The zero value has none.
type contexts struct {
	current int32 // the one that was used last

	// What was looked up last: most clients have one context, and those with
	// more often ask in one several times.
	number  int32
	profile *profile // nil if none was sent

	all map[int32]*profile // nil until there are two

}

// get returns the profile of a context, or nil.
func (c *contexts) get(number int32) *profile {
	if c.number == number { // 0 is no context until profile is set
		return c.profile
	}
	p := c.all[number]
	if p != nil {
		c.number, c.profile = number, p
	}
	return p
}

// room reports whether there is room for the profile of a context, of limit contexts. If
// there is one already, old is that.
func (c *contexts) room(number int32, limit int) (old *profile, ok bool) {
	old = c.get(number)
	return old, old != nil || c.len() < limit
}

// set replaces the profile of a context; nil removes it.
func (c *contexts) set(number int32, p *profile) {
	if c.all == nil && c.profile != nil && c.number != number {
		c.all = map[int32]*profile{c.number: c.profile}
	}
	switch {
	case p == nil:
		delete(c.all, number)
	case c.all != nil:
		c.all[number] = p
	}
	c.number, c.profile = number, p
}

// len reports how many contexts there are.
func (c *contexts) len() int {
	switch {
	case c.all != nil:
		return len(c.all)
	case c.profile != nil:
		return 1
	}
	return 0
}
