package session

import (
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// setProfile replaces the profile of one of the client's contexts.
func (s *session) setProfile(b []byte) error {
	profile, context, err := transport.ParseProfile(b)
	if err != nil {
		return pdu.ErrnoIPC
	}
	old, ok := s.contexts.room(context, s.srv.cfg.MaxContexts)
	if !ok {
		return pdu.ErrnoEAGAIN
	}
	if err := s.holdProfile(old, profile); err != nil {
		s.contexts.set(context, nil) // the old one would give other values than the client expects
		s.srv.cfg.Limiter.Warn("profiles", "client[{client}] {address}: a profile is refused (EAGAIN): {error}",
			"client", s.client.Num, "address", s.client.Addr, "error", err)
		return pdu.ErrnoEAGAIN
	}
	s.contexts.set(context, profile)
	s.contexts.current = context
	return nil
}

// profile returns the profile of a context, or nil.
func (s *session) profile(context int32) *transport.Profile { return s.contexts.get(context) }

// contexts are the profiles that a client has sent, by the numbers that it has
// given its contexts. The numbers can be any: PCP's library counts the contexts of
// a process over all hosts. The zero value has none.
type contexts struct {
	current int32 // the one that was used last

	// What was looked up last: most clients have one context, and those with
	// more often ask in one several times.
	number  int32
	profile *transport.Profile // nil if none was sent

	all map[int32]*transport.Profile // nil until there are two

}

// get returns the profile of a context, or nil.
func (c *contexts) get(number int32) *transport.Profile {
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
func (c *contexts) room(number int32, limit int) (old *transport.Profile, ok bool) {
	old = c.get(number)
	return old, old != nil || c.len() < limit
}

// set replaces the profile of a context; nil removes it.
func (c *contexts) set(number int32, p *transport.Profile) {
	if c.all == nil && c.profile != nil && c.number != number {
		c.all = map[int32]*transport.Profile{c.number: c.profile}
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
