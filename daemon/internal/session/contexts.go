package session

import "github.com/gopcp/pmcd/pdu"

// setProfile replaces the profile of one of the client's contexts. Success
// has no answer.
func (r request) setProfile(b []byte) error {
	p := new(pdu.Profile) // a new address says that it has changed
	if _, err := pdu.ParseInto(b, p); err != nil {
		return r.fail(pdu.ErrnoIPC)
	}
	if !r.contexts.set(p.Context, p, r.srv.cfg.MaxContexts) {
		return r.fail(pdu.ErrnoEAGAIN)
	}
	r.contexts.current = p.Context
	return nil
}

// contexts are the profiles that a client has sent, by the numbers that it has
// given its contexts. The numbers can be any: PCP's library counts the contexts of
// a process over all hosts. The zero value has none.
type contexts struct {
	current int32 // the one that was used last

	// What was looked up last: most clients have one context, and those with
	// more often ask in one several times.
	number  int32
	profile *pdu.Profile // nil if none was sent

	all map[int32]*pdu.Profile // nil until there are two
}

// get returns the profile of a context, or nil.
func (c *contexts) get(number int32) *pdu.Profile {
	if c.number == number { // 0 is no context until profile is set
		return c.profile
	}
	p := c.all[number]
	if p != nil {
		c.number, c.profile = number, p
	}
	return p
}

// set replaces the profile of a context. It reports whether there is room for
// one, of limit contexts.
func (c *contexts) set(number int32, p *pdu.Profile, limit int) bool {
	if c.get(number) == nil && c.len() >= limit {
		return false
	}
	if c.all == nil && c.profile != nil && c.number != number {
		c.all = map[int32]*pdu.Profile{c.number: c.profile}
	}
	if c.all != nil {
		c.all[number] = p
	}
	c.number, c.profile = number, p
	return true
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
