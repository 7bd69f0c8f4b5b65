package calls

import (
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A Caller whose session waits for its client has no large buffer, whatever its requests were. What
// it has is counted when Clear is called.
func TestFreeLarge(t *testing.T) {
	const n = MaxNormal
	for name, grow := range map[string]func(c *Caller, s *Sub){
		"reply":     func(c *Caller, s *Sub) { c.Out = make([]byte, 2*n) },
		"request":   func(c *Caller, s *Sub) { s.Req = make([]byte, n) },
		"answer":    func(c *Caller, s *Sub) { s.Reply = make([]byte, n) },
		"fetch":     func(c *Caller, s *Sub) { s.Fetch.PMIDs = make([]pdu.PMID, n/4) },
		"store":     func(c *Caller, s *Sub) { s.Store = make([]pdu.ValueSet, n/48+1) },
		"less used": func(c *Caller, s *Sub) { s.Fetch.PMIDs, c.Subs = make([]pdu.PMID, n/4), c.Subs[:0] },
	} {
		c := &Caller{Subs: make([]Sub, 1)}
		grow(c, &c.Subs[0])
		if bytes := c.Clear(); bytes < n {
			t.Errorf("%s: %d bytes are counted, want %d", name, bytes, n)
		}
		c.FreeLarge()
		if bytes := c.Clear(); bytes != 0 {
			t.Errorf("%s: %d bytes are left", name, bytes)
		}
	}
}
